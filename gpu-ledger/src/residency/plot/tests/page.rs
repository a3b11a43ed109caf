//! What strangers named stays text, in a picture and in a page; both are well-formed.

use super::made::{Made, Read, process};
use crate::residency::plot::{Picture, ShowVoid, Theme, page, render, render_for_print};
use crate::residency::verdict::Backend;
use crate::unit::GpuUuid;

const HOSTILE: [&str; 4] = [
    "</script><script>alert(1)</script>",
    "\"><img src=x onerror='alert(2)'>&amp;",
    "]]></style>\u{202e}\u{1b}[2J\0",
    "模型 größe",
];

/// Every text that a stranger can choose is hostile.
fn with(look: impl Fn(&Picture<'_>)) {
    let list: Vec<_> = (0..4_u32).map(|at| (10 + at, Some(1_000))).collect();
    let read = |_| Read { used_mib: 5_000, processes: Some(list.clone()), ..Read::default() };
    let made = Made {
        read: &read,
        processes: (0..4)
            .map(|at| process(10 + u32::try_from(at).unwrap(), 1_000, Some(HOSTILE[at])))
            .collect(),
        phases: HOSTILE
            .iter()
            .enumerate()
            .map(|(at, name)| (u64::try_from(at).unwrap() * 400, (*name).to_owned()))
            .collect(),
        ..Made::default()
    };
    let (curve, mut iteration) = made.curve();
    iteration.labels = HOSTILE.map(|text| (text.to_owned(), text.to_owned())).to_vec();
    iteration.t0_wall = Some(HOSTILE[0].to_owned());
    let mut facts = made.facts(&iteration, Backend::DirectNvml);
    facts.batch.batch_id = HOSTILE[1].to_owned();
    facts.batch.gpu_name = Some(HOSTILE[0].to_owned());
    facts.batch.gpu_uuid = GpuUuid(HOSTILE[2].into());
    facts.batch.driver = Some(HOSTILE[1].to_owned());
    facts.sha256 = Some(HOSTILE[1].to_owned());
    look(&Picture {
        facts: &facts,
        iteration: &iteration,
        curve: Some(&curve),
        theme: Theme::Auto,
    });
}

fn is_harmless(text: &str) -> bool {
    let controls = text.chars().filter(|sign| *sign != '\n').any(crate::escape::is_unprintable);
    !controls && ["alert(1)</script><", "<img", "]]></style>"].iter().all(|bad| !text.contains(bad))
}

#[test]
fn hostile_names_stay_text() {
    with(|picture| {
        let svg = render(picture, ShowVoid::No).unwrap();
        assert!(is_harmless(&svg) && !svg.contains("<script"));
        assert!(svg.contains("&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt; 10@1.00"));
        assert!(svg.contains("模型 größe 13@1.00"));
        let print = render_for_print(picture, ShowVoid::No).unwrap();
        assert!(is_harmless(&print) && print.contains(r"\xe6\xa8\xa1\xe5\x9e\x8b größe 13@1.00"));
        let page = page::render(&[*picture], ShowVoid::No).unwrap();
        assert!(is_harmless(&page));
        // The one that is executed, and the one that is data.
        assert_eq!(page.matches("<script").count(), 2);
        assert_eq!(page.matches("</script>").count(), 2);
    });
}

#[cfg(feature = "pictures")]
#[test]
fn pictures_are_well_formed() {
    use resvg::usvg::roxmltree::{Document, Node};
    with(|picture| {
        let svg = render(picture, ShowVoid::No).unwrap();
        let document = Document::parse(&svg).unwrap();
        let ids: Vec<&str> =
            document.descendants().filter_map(|node| node.attribute("id")).collect();
        let unique: std::collections::BTreeSet<_> = ids.iter().collect();
        assert_eq!(unique.len(), ids.len(), "{ids:?}");
        let batch = document
            .descendants()
            .find(|node| node.has_tag_name(("urn:gpu-ledger:residency", "batch")));
        assert_eq!(batch.and_then(|node| node.attribute("data_verdict")), Some("valid"));
        // Every pattern that is used is there, and nothing outside the picture is named.
        let named = |node: Node<'_, '_>| node.attribute("fill").map(str::to_owned);
        for fill in document.descendants().filter_map(named).filter(|fill| fill != "none") {
            let id = fill.strip_prefix("url(#").and_then(|rest| rest.strip_suffix(')')).unwrap();
            assert!(ids.contains(&id), "{fill}");
        }
        assert!(!svg.replace("http://www.w3.org/2000/svg", "").contains("http"));
    });
}

#[test]
fn a_page_allows_nothing_but_what_it_brings() {
    with(|picture| {
        let page = page::render(&[*picture], ShowVoid::No).unwrap();
        let (_, policy) = page.split_once("Content-Security-Policy\" content=\"").unwrap();
        let (policy, _) = policy.split_once('"').unwrap();
        assert!(policy.starts_with("default-src 'none'; style-src 'sha256-"), "{policy}");
        assert!(!policy.contains("unsafe") && !policy.contains("http"), "{policy}");
        // Each sheet and the script are allowed by what they really are.
        let inner = |tag: &str| {
            let (open, close) = (format!("<{tag}>"), format!("</{tag}>"));
            page.split(&open)
                .skip(1)
                .map(|rest| rest.split(&close).next().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        let brought = [inner("style"), inner("script")].concat();
        assert_eq!(brought.len(), 3);
        for text in brought {
            use base64::Engine as _;
            use sha2::Digest as _;
            let hash = sha2::Sha256::digest(text.as_bytes());
            let hash = base64::engine::general_purpose::STANDARD.encode(hash);
            assert!(policy.contains(&format!("'sha256-{hash}'")), "{text:.60}");
        }
        assert!(!page.contains(" style=\"") && !page.contains(" onload"));
    });
}

#[test]
fn pictures_of_one_page_share_no_id() {
    let made = Made::default();
    let (curve, iteration) = made.curve();
    let second = crate::residency::plot::Iteration { number: 2, ..iteration.clone() };
    let facts = made.facts(&iteration, Backend::DirectNvml);
    let pictures = [&iteration, &second].map(|iteration| Picture {
        facts: &facts,
        iteration,
        curve: Some(&curve),
        theme: Theme::Auto,
    });
    let page = page::render(&pictures, ShowVoid::No).unwrap();
    let ids: Vec<&str> =
        page.split(" id=\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    let unique: std::collections::BTreeSet<_> = ids.iter().collect();
    assert!(unique.len() == ids.len() && ids.len() > 4, "{ids:?}");
    assert_eq!(page.matches("tabindex=\"0\"").count(), 2);
}
