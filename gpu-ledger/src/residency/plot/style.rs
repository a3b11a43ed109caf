//! Colours, and the signs beside them.
//!
//! Colours are those of Okabe and Ito ("Color Universal Design", 2008), which people with any colour
//! vision tell apart; a band has a pattern besides, and neighbours differ in both. A void picture has no
//! colour but red.

use super::markup::Markup;

/// On which ground a picture is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum)]
pub enum Theme {
    /// As the reader's browser prefers; light where nothing asks. Not for PNG and PDF.
    #[default]
    Auto,
    /// Dark on white.
    Light,
    /// Light on black.
    Dark,
}

/// Colours of bands.
const BANDS: usize = 7;

struct Palette {
    ground: &'static str,
    hatch: &'static str,
    ink: &'static str,
    dim: &'static str,
    grid: &'static str,
    curve: &'static str,
    alarm: &'static str,
    phases: [&'static str; 2],
    bands: [&'static str; BANDS],
    others: &'static str,
}

/// The colours of bands, for other pictures too.
pub(crate) const OKABE_ITO: [&str; BANDS] =
    ["#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#f0e442", "#0072b2", "#d55e00"];

const LIGHT: Palette = Palette {
    ground: "#ffffff",
    hatch: "#ffffff",
    ink: "#1b1f24",
    dim: "#4d555e",
    grid: "#dfe3e8",
    curve: "#0072b2",
    alarm: "#b3261e",
    phases: ["#e8edf3", "#d3dce6"],
    bands: OKABE_ITO,
    others: "#b9bec5",
};

const DARK: Palette = Palette {
    ground: "#14171b",
    hatch: "#14171b",
    ink: "#f1f3f5",
    dim: "#b4bcc6",
    grid: "#343a42",
    curve: "#56b4e9",
    alarm: "#ff8a80",
    phases: ["#262d36", "#36404c"],
    bands: OKABE_ITO,
    others: "#767e88",
};

const GREYS: [&str; BANDS] =
    ["#8f8f8f", "#b0b0b0", "#777777", "#a2a2a2", "#bdbdbd", "#6a6a6a", "#999999"];

const VOID_LIGHT: Palette = Palette {
    ground: "#dcdcdc",
    hatch: "#c6c6c6",
    ink: "#222222",
    dim: "#404040",
    grid: "#bcbcbc",
    curve: "#555555",
    alarm: "#b00020",
    phases: ["#cfcfcf", "#bdbdbd"],
    bands: GREYS,
    others: "#888888",
};

const VOID_DARK: Palette = Palette {
    ground: "#2c2c2c",
    hatch: "#3b3b3b",
    ink: "#f0f0f0",
    dim: "#cccccc",
    grid: "#505050",
    curve: "#c4c4c4",
    alarm: "#ff6b6b",
    phases: ["#3a3a3a", "#4a4a4a"],
    bands: GREYS,
    others: "#767676",
};

/// What does not depend on the ground. Sizes are for a picture 1,000 units wide: at 800 px the smallest
/// text is 10 px high.
const SHAPES: &str = "\
text{font-family:\"Noto Sans\",\"Segoe UI\",Roboto,\"Helvetica Neue\",Arial,\"Liberation Sans\",sans-serif}\
.h,.p,.s,.t{paint-order:stroke;stroke-width:3;stroke-linejoin:round}\
.ph{font-size:13px}.h{font-size:20px}.p{font-size:15px}.s{font-size:13px}.t{font-size:12.5px}\
.grid{stroke-width:1;fill:none}.edge{stroke-width:1;fill:none}\
.curve{fill:none;stroke-width:1.5;stroke-linejoin:round}\
.swatch{fill:none;stroke-width:.5}.rim{fill:none;stroke-width:.9;stroke-opacity:.55}.top{fill:none;stroke-width:1.6;stroke-opacity:.75}\
.limit,.pace{fill:none;stroke-width:1.5;stroke-dasharray:7 4}\
.sup{fill:none;stroke-width:1.2}\
.wm{font-size:30px;fill-opacity:.3}\
.stale{fill-opacity:.5}.gap{fill-opacity:.38}\
.sign{fill:none;stroke-width:1.1;stroke-opacity:.55}\
";

fn rules(palette: &Palette) -> String {
    let Palette { ground, hatch, ink, dim, grid, curve, alarm, phases, bands, others } = palette;
    let [even, odd] = phases;
    let band = |(at, colour): (usize, &&str)| format!(".a{at}{{fill:{colour}}}");
    let bands = bands.iter().enumerate().map(band).collect::<Vec<_>>().concat();
    format!(
        ".ground{{fill:{ground}}}.hatch{{stroke:{hatch}}}\
         .h,.p,.s,.t{{stroke:{ground}}}.h,.p,.mark{{fill:{ink}}}.s,.t,.ph{{fill:{dim}}}.loud{{fill:{alarm}}}\
         .grid{{stroke:{grid}}}.edge,.pace{{stroke:{dim}}}.swatch,.rim,.top,.sup,.sign{{stroke:{ink}}}\
         .curve{{stroke:{curve}}}.limit{{stroke:{alarm}}}.stale{{fill:{alarm}}}\
         .gap,.gap-mark{{fill:{dim}}}.wm{{fill:{alarm}}}\
         .ph0{{fill:{even}}}.ph1{{fill:{odd}}}{bands}.others{{fill:{others}}}"
    )
}

/// The style sheet of a picture.
pub(super) fn sheet(theme: Theme, void: bool) -> String {
    let (light, dark) = if void { (&VOID_LIGHT, &VOID_DARK) } else { (&LIGHT, &DARK) };
    match theme {
        Theme::Light => format!("{SHAPES}{}", rules(light)),
        Theme::Dark => format!("{SHAPES}{}", rules(dark)),
        Theme::Auto => {
            format!("{SHAPES}{}@media (prefers-color-scheme:dark){{{}}}", rules(light), rules(dark))
        }
    }
}

/// The ground and the ink of a page around pictures.
pub(super) fn page_sheet(theme: Theme) -> String {
    let colours =
        |palette: &Palette| format!("body{{background:{};color:{}}}", palette.ground, palette.ink);
    match theme {
        Theme::Light => colours(&LIGHT),
        Theme::Dark => colours(&DARK),
        Theme::Auto => format!(
            ":root{{color-scheme:light dark}}{}@media (prefers-color-scheme:dark){{{}}}",
            colours(&LIGHT),
            colours(&DARK)
        ),
    }
}

/// How a band looks: a colour, and a sign over it. The colour is no part of the pattern, whose tiles some
/// readers of PDF draw with seams between them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Look {
    /// The class of its colour; `None`: the ground shows.
    pub(super) colour: Option<String>,
    /// The pattern of its sign.
    pub(super) sign: Option<String>,
}

impl Look {
    /// Of the band with a number. Every seventh has the same colour, every fourth the same sign: none the same
    /// of both until 28.
    pub(super) fn band(at: usize) -> Self {
        let colour = at.checked_rem(BANDS).unwrap_or(0);
        let sign = at.checked_rem(SIGNS.len().saturating_add(1)).unwrap_or(0);
        let sign = (sign > 0).then(|| format!("sign{sign}"));
        Self { colour: Some(format!("a{colour}")), sign }
    }

    /// Of all who are not drawn apart.
    pub(super) fn others() -> Self {
        Self { colour: Some("others".to_owned()), sign: Some("squares".to_owned()) }
    }

    /// Of what belongs to nobody.
    pub(super) fn unattributed() -> Self {
        Self { colour: None, sign: Some("nobody".to_owned()) }
    }

    /// Of what was not split.
    pub(super) fn unsplit() -> Self {
        Self { colour: Some("others".to_owned()), sign: Some("lines".to_owned()) }
    }
}

/// The pattern of a void canvas.
pub(super) const HATCH: &str = "hatch";

/// Signs that lie over colours, beside none at all.
const SIGNS: [&str; 3] =
    ["M-2 10L10 -2M-2 4L4 -2M4 10L10 4", "M4 2V6M2 4H6", "M-2 -2L10 10M4 -2L10 4M-2 4L4 10"];

/// All patterns.
pub(super) fn patterns(markup: &mut Markup, void: bool) {
    let mut one = |name: &str, sign: &str| {
        let id = markup.id(name);
        markup.raw(format_args!(
            "<pattern id=\"{id}\" width=\"8\" height=\"8\" patternUnits=\"userSpaceOnUse\">"
        ));
        markup.path("sign", sign);
        markup.raw(format_args!("</pattern>\n"));
    };
    for (at, sign) in SIGNS.iter().enumerate() {
        one(&format!("sign{}", at.saturating_add(1)), sign);
    }
    one("squares", "M0 4H8M4 0V8");
    one("nobody", "M-2 10L10 -2M-2 2L2 -2M6 10L10 6");
    one("lines", "M0 4H8");
    if void {
        let id = markup.id(HATCH);
        markup.raw(format_args!(
            "<pattern id=\"{id}\" width=\"14\" height=\"14\" patternUnits=\"userSpaceOnUse\">\
             <path class=\"hatch\" fill=\"none\" stroke-width=\"3\" \
             d=\"M-4 18L18 -4M-4 4L4 -4M10 18L18 10\"/></pattern>\n"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::Look;
    use crate::residency::plot::processes::SHOWN_MAX;

    #[test]
    fn no_two_bands_look_alike_and_neighbours_differ_in_both() {
        let looks: Vec<Look> = (0..SHOWN_MAX).map(Look::band).collect();
        for (at, look) in looks.iter().enumerate() {
            assert!(looks.iter().skip(at + 1).all(|other| other != look), "{look:?}");
        }
        for pair in looks.windows(2) {
            assert!(pair[0].colour != pair[1].colour && pair[0].sign != pair[1].sign, "{pair:?}");
        }
    }
}
