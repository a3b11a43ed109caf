//! Options that would do nothing: refused, and never passed over.

use crate::asked::Asked;

fn refused(words: &[&str], because: &str) {
    let answer = Asked::without_library().run(words);
    assert_eq!(answer.code, 64, "{words:?}: {}{}", answer.out, answer.err);
    assert!(answer.err.contains(because), "{words:?}: {}", answer.err);
}

#[test]
fn an_option_that_a_command_has_no_use_for_is_refused() {
    let unexpected = |option: &str| format!("unexpected argument '{option}'");
    for command in [&["release"][..], &["mark", "x"]] {
        let words = [command, &["--state-dir", "/nonexistent"]].concat();
        refused(&words, &unexpected("--state-dir"));
    }
    for command in [&["journal", "check"][..], &["journal", "archive", "--before", "now"]] {
        refused(&[command, &["--socket", "/x"]].concat(), &unexpected("--socket"));
    }
    refused(&["journal", "check", "/x.db", "--state-dir", "/x"], "cannot be used with");
    refused(&["trace", "--for", "1s", "--as-root"], "cannot be used with");
    refused(&["release", "--end", "--for", "1s"], "cannot be used with");
    for command in [&["status"][..], &["bill"], &["release"], &["mark", "x"], &["journal", "check"]]
    {
        let words = [&["--nvml-library", "/x.so"], command].concat();
        refused(&words, &format!("{} opens no driver", command[0]));
    }
}

#[test]
fn a_configuration_that_is_named_is_read_also_beside_what_goes_before_it() {
    let config = ["--config", "/nonexistent/config.toml"];
    for command in [
        &["status", "--socket", "/x"][..],
        &["release", "--socket", "/x"],
        &["journal", "check", "--state-dir", "/x"],
        &["bill", "--state-dir", "/x"],
    ] {
        let answer = Asked::without_library().run(&[command, &config].concat());
        assert_eq!(answer.code, 1, "{command:?}: {}", answer.err);
        assert!(answer.err.contains("/nonexistent/config.toml"), "{command:?}: {}", answer.err);
    }
}

#[test]
fn times_for_which_nothing_is_released_are_refused_in_plain_words() {
    for (time, because) in [
        ("0s", "nothing can be done in a time of 0"),
        ("400d", "24h at most"),
        ("25h", "24h at most"),
        ("soon", "give a time such as 500ms, 60s, 5m, 1h30m or 7d"),
        ("1mo", "no time of a known length"),
        ("-1s", "cannot be negative"),
    ] {
        let answer = Asked::without_library().run(&["release", "--for", time]);
        assert_eq!(answer.code, 64, "{time}: {}", answer.err);
        assert!(answer.err.contains(because), "{time}: {}", answer.err);
        assert!(!answer.err.contains("jiff"), "{time}: {}", answer.err);
    }
    refused(&["mark", "  "], "a note without words");
    refused(&["mark", &"x".repeat(513)], "at most 512");
}
