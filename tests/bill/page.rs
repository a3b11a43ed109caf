//! The page that a bill is exported as, in a real browser: as people see it, and as a stranger's name would like it.

use std::path::{Path, PathBuf};

use gpu_ledger::journal::store::{StateDir, Store};

use super::browser::Browser;
use super::skip::skip;
use super::{HOUR_MS, Host};

/// What nobody but the page could ask for.
const ELSEWHERE: &str = "pwned.invalid";
/// A program whose name would run, load and style, if it were anything but text.
const HOSTILE: &str = "</title></style></svg><script>document.title='pwned'</script><img src=http://pwned.invalid/x \
                       onerror=document.title='pwned'>";

/// What a key must reach, as the page's own list.
const STOPS: &str = "[...document.querySelectorAll('a[href], summary, .scroll')]";

/// A host with two spans that overlap, many that are shorter than a column, and names that would be more than names.
fn hostile() -> Host {
    let host = Host::made(true, "gpuhost", 1_000, HOSTILE);
    let mut drafts =
        vec![host.settlement(10, 2 * HOUR_MS + HOUR_MS / 2, HOUR_MS, Some("train.py"))];
    for job in 0..60_u32 {
        let ago_ms = 2 * HOUR_MS - u64::from(job) * 60_000;
        drafts.push(host.settlement(100 + job, ago_ms, 7_000, Some("xtts")));
    }
    drafts.push(host.mark());
    let (mut store, _) = Store::open(&StateDir::at(host.folder.path())).unwrap();
    store.append(drafts).unwrap();
    drop(store);
    host
}

fn exported(host: &Host, folder: &Path) -> PathBuf {
    let page = folder.join("bill.html");
    let path = page.to_str().unwrap();
    let words = ["--format", "html", "--since", "4h", "--utc", "--output", path];
    let said = host.of_command("export", &words).output().unwrap();
    // One of its settlements has no name.
    assert_eq!(said.status.code(), Some(2), "{said:?}");
    page
}

#[test]
fn the_page_is_the_same_to_a_browser_light_and_dark_and_no_name_in_it_is_more_than_text() {
    let Some(browser) = Browser::found() else {
        skip("the page in a browser", "there is no chromium; apt-get install chromium");
        return;
    };
    let host = hostile();
    // Kept, for whoever wants to look.
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("export-html");
    std::fs::create_dir_all(&folder).unwrap();
    let page = exported(&host, &folder);

    let mut pictures = Vec::new();
    for (name, theme) in [("light", 1), ("dark", 0)] {
        let picture = folder.join(format!("{name}.png"));
        let preferred = format!("--blink-settings=preferredColorScheme={theme}");
        let shot = format!("--screenshot={}", picture.display());
        let seen = browser.look(&page, &[&preferred, &shot]);
        assert_eq!(seen.complaints(), Vec::<String>::new(), "{name}");
        assert!(!seen.net_log.contains(ELSEWHERE), "{name}");
        pictures.push(std::fs::read(&picture).unwrap());
    }
    assert!(pictures.iter().all(|picture| picture.len() > 40_000), "no page is that empty");
    assert!(pictures[0] != pictures[1], "light and dark are two");

    let seen = browser.look(&page, &["--dump-dom"]);
    let dom = String::from_utf8(seen.output.stdout.clone()).unwrap();
    assert_eq!(seen.complaints(), Vec::<String>::new());
    assert!(dom.contains("&lt;script&gt;document.title='pwned'&lt;/script&gt;"), "{dom}");
    assert!(dom.contains("<title>GPU bill ") && !dom.contains("<title>pwned"), "{dom}");
    for element in ["<script", "<img", "<iframe", "<link", "<object", " onerror=", "javascript:"] {
        let outside_of_text = dom.replace("onerror=document.title", "");
        assert!(!outside_of_text.contains(element), "{element}");
    }
    for wanted in ["id=\"lanes\"", "class=\"skip\"", "lang=\"en\"", "event-lost", "<details>"] {
        assert!(dom.contains(wanted), "{wanted}");
    }

    // The same looks find what they look for, in a page that is not so careful.
    let careless = folder.join("careless.html");
    std::fs::write(
        &careless,
        format!(
            "<!DOCTYPE html><title>bill</title>{HOSTILE}<script>console.error('careless')</script>"
        ),
    )
    .unwrap();
    let seen = browser.look(&careless, &["--dump-dom", "--virtual-time-budget=2000"]);
    let dom = String::from_utf8(seen.output.stdout.clone()).unwrap();
    assert!(dom.contains("<title>pwned") && dom.contains("<img"), "{dom}");
    assert!(seen.net_log.contains(ELSEWHERE) && !seen.complaints().is_empty());
}

#[test]
fn everything_that_opens_or_scrolls_is_reached_and_worked_by_keys_alone() {
    let Some(browser) = Browser::found() else {
        skip("the page by keyboard", "there is no chromium; apt-get install chromium");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let mut tab = browser.opened(&exported(&hostile(), folder.path()));
    let said = |tab: &mut super::browser::Tab, what: &str| tab.evaluated(what);
    let all = said(&mut tab, &format!("{STOPS}.filter(e => e.checkVisibility()).length"));
    let all = all.as_u64().unwrap();
    assert!(all > 8, "{all}");
    tab.press("Tab", 9);
    assert_eq!(said(&mut tab, "document.activeElement.className"), "skip");
    let mut reached = vec![0];
    let mut opened = 0;
    // Whatever opens on the way brings more stops; the way ends where the page does.
    for _ in 0..1_000 {
        if said(&mut tab, "document.activeElement.tagName") == "SUMMARY" {
            tab.press("Enter", 13);
            assert_eq!(said(&mut tab, "document.activeElement.parentElement.open"), true);
            opened += 1;
        }
        tab.press("Tab", 9);
        let stop = said(&mut tab, &format!("{STOPS}.indexOf(document.activeElement)"));
        let Some(stop) = stop.as_u64() else { break };
        reached.push(stop);
    }
    let visible = said(
        &mut tab,
        &format!("{STOPS}.map((e, i) => e.checkVisibility() ? i : -1).filter(i => i >= 0)"),
    );
    let visible: Vec<u64> =
        visible.as_array().unwrap().iter().filter_map(serde_json::Value::as_u64).collect();
    assert_eq!(reached, visible, "in the order of the page, each once");
    assert_eq!(opened, said(&mut tab, "document.querySelectorAll('details[open]').length"));
    assert!(opened > 3, "{opened}");
    // What has the focus is seen to have it.
    tab.press("Tab", 9);
    assert_ne!(said(&mut tab, "getComputedStyle(document.activeElement).outlineStyle"), "none");
}
