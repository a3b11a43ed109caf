//! The page that a bill is exported as, in a real browser: as people see it, and as a stranger's name would like it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use gpu_ledger::journal::store::{StateDir, Store};

use super::skip::skip;
use super::{HOUR_MS, Host};

/// What nobody but the page could ask for.
const ELSEWHERE: &str = "pwned.invalid";
/// A program whose name would run, load and style, if it were anything but text.
const HOSTILE: &str = "</title></style></svg><script>document.title='pwned'</script><img src=http://pwned.invalid/x \
                       onerror=document.title='pwned'>";

/// A browser that keeps nothing and shows nothing; `None` where there is none.
struct Browser {
    program: PathBuf,
    folder: tempfile::TempDir,
}

/// What it said.
struct Seen {
    output: Output,
    /// Every address that was asked for.
    net_log: String,
}

impl Browser {
    fn found() -> Option<Self> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let found = std::env::split_paths(&path).map(|folder| folder.join("chromium"));
        let program = found.into_iter().find(|program| program.is_file())?;
        Some(Self { program, folder: tempfile::tempdir().unwrap() })
    }

    fn look(&self, page: &Path, words: &[&str]) -> Seen {
        let net_log = self.folder.path().join("net.json");
        let output = Command::new(&self.program)
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--no-first-run",
                "--hide-scrollbars",
            ])
            .args(["--disable-extensions", "--disable-sync", "--disable-background-networking"])
            .args(["--enable-logging=stderr", "--window-size=1280,2600"])
            .arg(format!("--user-data-dir={}", self.folder.path().join("profile").display()))
            .arg(format!("--log-net-log={}", net_log.display()))
            .args(words)
            .arg(format!("file://{}", page.display()))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        Seen { output, net_log: std::fs::read_to_string(net_log).unwrap() }
    }
}

impl Seen {
    /// What the page complained about on its console.
    fn complaints(&self) -> Vec<String> {
        let said = String::from_utf8_lossy(&self.output.stderr).into_owned();
        said.lines().filter(|line| line.contains("CONSOLE")).map(ToOwned::to_owned).collect()
    }
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
    let host = Host::made(true, "gpuhost", 1_000, HOSTILE);
    // Two that overlap, and many that are shorter than a column.
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
