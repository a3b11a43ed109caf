//! Colours of lines, and the signs beside them: those of the residency recorder's pictures.

use std::collections::BTreeMap;

use super::markup::{Markup, safe};
use crate::bill::LineKey;
use crate::bill::report::{Account, Report};
use crate::residency::plot::OKABE_ITO;

/// Lines with a look of their own; all others share one.
pub(super) const LOOKS_MAX: usize = 9;

/// Signs over colours, beside none at all: neighbours differ in both, and none is another's until 28.
const SIGNS: [&str; 3] =
    ["M-2 10L10 -2M-2 4L4 -2M4 10L10 4", "M4 2V6M2 4H6", "M-2 -2L10 10M4 -2L10 4M-2 4L4 10"];

/// How something looks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Look {
    /// The account at this place.
    Account(usize),
    /// All accounts without a look of their own.
    Others,
    /// Settled or open, and nobody can say whose.
    Nobody,
}

/// Which line looks how.
pub(super) struct Looks {
    places: BTreeMap<LineKey, usize>,
    names: Vec<String>,
    others: usize,
}

impl Looks {
    /// The largest lines have their own.
    pub(super) fn of(report: &Report) -> Self {
        let shown = report.accounts.iter().take(LOOKS_MAX);
        Self {
            places: shown.clone().zip(0..).map(|(line, place)| (line.line, place)).collect(),
            names: shown.map(|line| name_of(report, line)).collect(),
            others: report.accounts.len().saturating_sub(LOOKS_MAX),
        }
    }

    pub(super) fn look(&self, line: LineKey) -> Look {
        match (line.reason, self.places.get(&line)) {
            (Some(_), _) => Look::Nobody,
            (None, Some(place)) => Look::Account(*place),
            (None, None) => Look::Others,
        }
    }

    /// For people, safe as markup.
    pub(super) fn name(&self, look: Look) -> String {
        match look {
            Look::Account(place) => self.names.get(place).cloned().unwrap_or_default(),
            Look::Others if self.others > 0 => format!("{} other accounts", self.others),
            Look::Others => "accounts that are left out".to_owned(),
            Look::Nobody => "unattributed: nobody can say whose".to_owned(),
        }
    }

    /// The rules of their colours.
    pub(super) fn sheet(&self) -> String {
        let colours = OKABE_ITO.iter().cycle().zip(0..).take(self.names.len());
        let rules = colours.map(|(colour, place)| format!(".a{place}{{fill:{colour}}}"));
        rules.collect::<Vec<_>>().concat()
    }
}

/// What a line is called, safe as markup.
pub(super) fn name_of(report: &Report, line: &Account) -> String {
    let title = line.title();
    safe(&report.shown.name(&report.shown.called(&title, line.named_by)))
}

impl Look {
    /// The class of its colour.
    pub(super) fn class(self) -> String {
        match self {
            Self::Account(place) => format!("a{place}"),
            Self::Others => "others".to_owned(),
            Self::Nobody => "nobody".to_owned(),
        }
    }

    /// The pattern of its sign.
    pub(super) fn sign(self) -> Option<String> {
        match self {
            Self::Account(place) => {
                let sign = place.checked_rem(SIGNS.len().saturating_add(1)).unwrap_or(0);
                (sign > 0).then(|| format!("sign{sign}"))
            }
            Self::Others => Some("squares".to_owned()),
            Self::Nobody => Some("rings".to_owned()),
        }
    }
}

/// All patterns, once for the page.
pub(super) fn patterns(page: &mut Markup) {
    page.raw("<svg class=\"defs\" width=\"0\" height=\"0\" aria-hidden=\"true\" focusable=\"false\"><defs>\n");
    let mut one = |name: &str, size: u32, class: &str, path: &str| {
        page.line(format_args!(
            "<pattern id=\"{name}\" width=\"{size}\" height=\"{size}\" patternUnits=\"userSpaceOnUse\"><path class=\"{class}\" \
             d=\"{path}\"/></pattern>"
        ));
    };
    for (place, sign) in (1_usize..).zip(SIGNS) {
        one(&format!("sign{place}"), 8, "sign", sign);
    }
    one("squares", 8, "sign", "M0 4H8M4 0V8");
    one("rings", 8, "sign", "M6 4A2 2 0 1 1 2 4A2 2 0 1 1 6 4");
    one("overlap", 6, "overlap", "M-1.5 7.5L7.5 -1.5M-1.5 1.5L1.5 -1.5M4.5 7.5L7.5 4.5");
    one("unseen", 8, "unseen", "M0 0L8 8M8 0L0 8");
    one("open", 6, "opened", "M3 1V2M3 4V5");
    page.raw("</defs></svg>\n");
}

/// A square that shows a look beside its name.
pub(super) fn swatch(look: Option<Look>, over: Option<&str>) -> String {
    let mut markup = String::from(
        "<svg class=\"swatch\" viewBox=\"0 0 20 14\" aria-hidden=\"true\" focusable=\"false\">",
    );
    // What was not seen lies on another ground than what was, and a hatch shows on what is held.
    let ground = match over {
        Some("unseen") => "blind",
        Some("overlap") => "others",
        _ => "free",
    };
    let rect = |class: &str, fill: Option<&str>| {
        let fill = fill.map(|id| format!(" fill=\"url(#{id})\"")).unwrap_or_default();
        format!("<rect class=\"{class}\" x=\".5\" y=\".5\" width=\"19\" height=\"13\"{fill}/>")
    };
    markup.push_str(&rect(&look.map_or_else(|| ground.to_owned(), Look::class), None));
    if let Some(sign) = look.and_then(Look::sign) {
        markup.push_str(&rect("over", Some(&sign)));
    }
    if let Some(over) = over {
        markup.push_str(&rect("over", Some(over)));
    }
    markup.push_str("<rect class=\"rim\" x=\".5\" y=\".5\" width=\"19\" height=\"13\"/></svg>");
    markup
}
