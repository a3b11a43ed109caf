//! A real browser without a window: what it makes of a page, and what keys do to it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};

use serde_json::{Value, json};

/// A browser that keeps nothing and shows nothing; `None` where there is none.
pub(super) struct Browser {
    program: PathBuf,
    folder: tempfile::TempDir,
}

/// What it said.
pub(super) struct Seen {
    pub(super) output: Output,
    /// Every address that was asked for.
    pub(super) net_log: String,
}

impl Browser {
    pub(super) fn found() -> Option<Self> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let found = std::env::split_paths(&path).map(|folder| folder.join("chromium"));
        let program = found.into_iter().find(|program| program.is_file())?;
        Some(Self { program, folder: tempfile::tempdir().unwrap() })
    }

    pub(super) fn look(&self, page: &Path, words: &[&str]) -> Seen {
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
    pub(super) fn complaints(&self) -> Vec<String> {
        let said = String::from_utf8_lossy(&self.output.stderr).into_owned();
        said.lines().filter(|line| line.contains("CONSOLE")).map(ToOwned::to_owned).collect()
    }
}

/// A page that is open, worked over the browser's debugging protocol: NUL-terminated JSON on its descriptors 3 and 4.
pub(super) struct Tab {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    session: Value,
    calls: u64,
}

impl Browser {
    /// Opens a page for keys.
    pub(super) fn opened(&self, page: &Path) -> Tab {
        let mut child = Command::new("sh")
            .args(["-c", "exec \"$@\" 3<&0 4>&1 1>&2 0</dev/null", "sh"])
            .arg(&self.program)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"])
            .args(["--disable-extensions", "--disable-sync", "--disable-background-networking"])
            .args(["--remote-debugging-pipe", "--window-size=1280,900"])
            .arg(format!("--user-data-dir={}", self.folder.path().join("worked").display()))
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (to, from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut tab = Tab { child, to, from: BufReader::new(from), session: Value::Null, calls: 0 };
        let url = format!("file://{}", page.display());
        let made = tab.call("Target.createTarget", &json!({ "url": "about:blank" }));
        let words = json!({ "targetId": made["targetId"], "flatten": true });
        tab.session = tab.call("Target.attachToTarget", &words)["sessionId"].clone();
        tab.call("Page.enable", &json!({}));
        tab.call("Page.navigate", &json!({ "url": url }));
        while tab.message()["method"] != "Page.loadEventFired" {}
        tab
    }
}

impl Tab {
    /// What an expression is worth on the page.
    pub(super) fn evaluated(&mut self, expression: &str) -> Value {
        let words = json!({ "expression": expression, "returnByValue": true });
        let said = self.call("Runtime.evaluate", &words);
        assert!(said["exceptionDetails"].is_null(), "{expression}: {said}");
        said["result"]["value"].clone()
    }

    /// A key goes down and up again, as a keyboard's would.
    pub(super) fn press(&mut self, key: &str, code: u32) {
        for kind in ["keyDown", "keyUp"] {
            // Without its text a key that types something does nothing.
            let text = if key == "Enter" { "\r" } else { "" };
            let words = json!({
                "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text,
            });
            self.call("Input.dispatchKeyEvent", &words);
        }
    }

    fn call(&mut self, method: &str, words: &Value) -> Value {
        self.calls += 1;
        let mut message = json!({ "id": self.calls, "method": method, "params": words });
        if !self.session.is_null() {
            message["sessionId"] = self.session.clone();
        }
        self.to.write_all(format!("{message}\0").as_bytes()).unwrap();
        loop {
            let answer = self.message();
            if answer["id"] == self.calls {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].clone();
            }
        }
    }

    fn message(&mut self) -> Value {
        let mut bytes = Vec::new();
        self.from.read_until(0, &mut bytes).unwrap();
        assert_eq!(bytes.pop(), Some(0), "the browser ended");
        serde_json::from_slice(&bytes).unwrap()
    }
}

impl Drop for Tab {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
