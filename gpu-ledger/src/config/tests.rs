use super::*;

const DOCUMENTED: &str = include_str!("../../units/config.toml");

fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::parse(text, Path::new("/etc/x.toml"))
}

fn refused(text: &str) -> String {
    parse(text).unwrap_err().to_string()
}

/// The documented file with its commented examples in force.
fn with_examples() -> String {
    let lines = DOCUMENTED.lines().map(|line| {
        let bare = line.strip_prefix("# ").unwrap_or(line);
        let is_example = bare
            .split_once(" = ")
            .is_some_and(|(key, _)| key.chars().all(|c| c.is_ascii_lowercase() || c == '_'));
        if is_example { bare } else { line }
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_documented_file_is_the_defaults() {
    assert_eq!(parse(DOCUMENTED).unwrap(), Config::default());
    assert_eq!(parse("").unwrap(), Config::default());
}

#[test]
fn the_documented_file_names_every_key_and_says_which_need_a_restart() {
    let config = parse(&with_examples()).unwrap();
    for key in KEYS {
        assert!((key.text)(&config).is_some(), "{} has no example", key.path);
        let name = key.path.rsplit('.').next().unwrap();
        let at = DOCUMENTED.find(&format!("{name} = ")).unwrap();
        let before = &DOCUMENTED[..at];
        let paragraph = &before[before.rfind("\n\n").unwrap()..];
        assert_eq!(paragraph.contains("(restart)"), key.needs_restart, "{}", key.path);
    }
    assert!(config.nvml_library.is_some() && config.metrics.listen.is_some());
}

#[test]
fn an_unknown_key_is_refused_with_the_nearest_known_one_and_its_line() {
    let error = refused("# ours\nstate_dri = \"/x\"\n");
    assert_eq!(
        error,
        "/etc/x.toml:2: unknown key `state_dri`; did you mean `state_dir`, above all tables?"
    );
    let error = refused("[metrics]\ninterval = \"1s\"\ntextfle = \"/x\"\n");
    assert!(error.contains(":3: unknown key `metrics.textfle`"), "{error}");
    assert!(error.contains("did you mean `textfile` under [metrics]?"), "{error}");
    let error = refused("listen = \"127.0.0.1:1\"\n");
    assert!(error.contains("did you mean `listen` under [metrics]?"), "{error}");
    let error = refused("[metric]\ninterval = \"1s\"\n");
    assert!(error.contains("did you mean the table [metrics]?"), "{error}");
    let error = refused("zzz = 1\n");
    assert!(error.contains("units/config.toml"), "{error}");
}

#[test]
fn a_wrong_value_is_refused_with_key_line_and_remedy() {
    let cases = [
        ("ring_size = 5", "`ring_size`", "a power of two"),
        ("ring_size = \"3MiB\"", "\"3MiB\" is no size", "a power of two"),
        ("device_touch = \"yes\"", "`device_touch`", "true or false"),
        ("call_deadline = \"soon\"", "\"soon\" is no time", "\"500ms\""),
        ("call_deadline = \"0s\"", "`call_deadline`", "greater than 0"),
        ("on_loss = \"ignore\"", "`on_loss`", "\"alert\""),
        ("memory_period = \"49ms\"", "49ms is out of range", "\"off\""),
        ("memory_period = \"61s\"", "1m 1s is out of range", "to \"1m\""),
        ("memory_period = \"-1s\"", "is no time", "\"5s\""),
        ("cmdline = \"all\"", "`cmdline`", "\"redacted\""),
        ("log = \"a=b=c\"", "`log`", "\"debug\""),
        ("state_dir = \"here\"", "not absolute", "absolute path"),
        ("names_socket = \"names.sock\"", "not absolute", "to ask nobody"),
        ("journal = 1", "`journal`", "a table"),
        ("[journal]\nqueue_length = 1", "1 is out of range", "from 64"),
        ("[journal]\nqueue_length = -1", "`journal.queue_length`", "from 64"),
        ("[metrics]\nlisten = \"0.0.0.0:9838\"", "0.0.0.0 is no loopback", "127.0.0.1:9838"),
        ("[metrics]\nlisten = \"[::]:9838\"", "no loopback", "[::1]:9838"),
        ("[metrics]\nlisten = \"localhost\"", "no address", "a port"),
        ("[socket]\ngroup = 5", "`socket.group`", "name of a group"),
    ];
    for (text, cause, remedy) in cases {
        let error = refused(text);
        let line = text.lines().count();
        assert!(error.starts_with(&format!("/etc/x.toml:{line}: ")), "{error}");
        assert!(error.contains(cause), "{cause}: {error}");
        let given = error.split("; give ").nth(1).unwrap_or_else(|| panic!("{error}"));
        assert!(given.contains(remedy), "{remedy}: {error}");
        assert!(!error.contains('\n'), "{error}");
    }
}

#[test]
fn what_is_no_toml_is_refused_with_its_line() {
    for (text, line) in
        [("a\n", 1), ("\n\nstate_dir = \n", 3), ("state_dir = \"/a\"\nstate_dir = \"/b\"\n", 2)]
    {
        let error = refused(text);
        assert!(error.starts_with(&format!("/etc/x.toml:{line}: ")), "{error}");
    }
}

#[test]
fn memory_is_sampled_every_five_seconds_unless_that_is_off() {
    assert_eq!(parse("").unwrap().memory_period, Some(Duration::from_secs(5)));
    for off in ["off", "0", "0s"] {
        let config = parse(&format!("memory_period = \"{off}\"")).unwrap();
        assert_eq!(config.memory_period, None, "{off}");
    }
    let config = parse("memory_period = \"200ms\"").unwrap();
    assert_eq!(config.memory_period, Some(Duration::from_millis(200)));
}

#[test]
fn loopback_of_both_families_is_taken() {
    for address in ["127.0.0.1:9838", "127.8.9.10:1", "[::1]:9838"] {
        let config = parse(&format!("[metrics]\nlisten = \"{address}\"")).unwrap();
        assert_eq!(config.metrics.listen, Some(address.parse().unwrap()));
    }
}

#[test]
fn a_reload_says_what_changes_and_what_must_wait() {
    let old = Config::default();
    let text = "ring_size = \"8MiB\"\non_loss = \"exit\"\n[metrics]\ntextfile = \"/m/a.prom\"\n";
    let reload = Reload::of(&old, parse(text).unwrap());
    let changes: Vec<(&str, Option<&str>, Option<&str>, bool)> = reload
        .changes
        .iter()
        .map(|c| (c.key, c.from.as_deref(), c.to.as_deref(), c.needs_restart))
        .collect();
    assert_eq!(
        changes,
        [
            ("ring_size", Some("4MiB"), Some("8MiB"), true),
            ("on_loss", Some("record"), Some("exit"), false),
            ("metrics.textfile", None, Some("/m/a.prom"), false),
        ]
    );
    assert_eq!(reload.waiting_for_restart().collect::<Vec<_>>(), ["ring_size"]);
    assert_eq!(reload.in_force.ring_bytes, old.ring_bytes);
    assert_eq!(reload.in_force.on_loss, OnLoss::Exit);
    // Reading the same file once more still tells what waits.
    let again = Reload::of(&reload.in_force, reload.wanted.clone());
    assert_eq!(again.changes.iter().map(|c| c.key).collect::<Vec<_>>(), ["ring_size"]);
}

/// With every key changed, what is in force differs from the old exactly where no restart is needed.
#[test]
fn in_force_takes_over_what_it_can_and_nothing_else() {
    let old = Config::default();
    let text = "state_dir = \"/s\"\nnvml_library = \"/n\"\nrules = \"/r\"\nring_size = \"8MiB\"\n\
        device_touch = false\ncall_deadline = \"3s\"\nmark_interval = \"3s\"\nmemory_period = \"off\"\non_loss = \"exit\"\n\
        cmdline = \"full\"\nlog = \"debug\"\nprices = \"/e.toml\"\nnames_socket = \"\"\nollama_models = \"\"\n[journal]\nqueue_length = 100\n[metrics]\ntextfile = \"/t.prom\"\n\
        interval = \"3s\"\nlisten = \"127.0.0.1:1\"\n[socket]\npath = \"/p\"\ngroup = \"g\"\n[audit]\ncheckpoint_file = \"/c\"\n";
    let wanted = parse(text).unwrap();
    let reload = Reload::of(&old, wanted.clone());
    assert_eq!(reload.changes.len(), KEYS.len());
    for key in KEYS {
        let expected = if key.needs_restart { &old } else { &wanted };
        assert_eq!((key.text)(&reload.in_force), (key.text)(expected), "{}", key.path);
    }
}

#[test]
fn a_missing_file_is_an_error_where_it_was_named() {
    let missing = Path::new("/nonexistent/config.toml");
    let error = Config::read_or_default(Some(missing)).unwrap_err().to_string();
    assert!(error.contains("/nonexistent/config.toml") && error.contains("--config"), "{error}");
}

#[test]
fn what_would_silence_everything_or_never_rest_is_refused() {
    for (text, said) in [
        ("log = \"inof\"", "\"inof\" is no level"),
        ("log = \"warn,gpu_ledger\"", "\"gpu_ledger\" is no level"),
        ("mark_interval = \"1us\"", "shorter than 50ms"),
        ("[metrics]\ninterval = \"49ms\"", "shorter than 50ms"),
    ] {
        let error = refused(text);
        assert!(error.contains(said) && error.contains("; give "), "{error}");
    }
    for filter in ["off", "INFO", "warn,gpu_ledger::kernel=debug", "gpu_ledger[span]=trace,error"] {
        assert_eq!(parse(&format!("log = \"{filter}\"")).unwrap().log, filter);
    }
}

/// Its first write would replace whatever stands there.
#[test]
fn the_text_file_has_a_name_that_no_journal_and_no_configuration_has() {
    for name in ["/var/lib/gpu-ledger/ledger.db", "/etc/gpu-ledger/config.toml", "/m/.prom"] {
        let error = refused(&format!("[metrics]\ntextfile = \"{name}\""));
        assert!(error.contains(".prom"), "{error}");
    }
}

#[test]
fn a_pipe_and_an_endless_device_are_no_configuration_and_nothing_is_one() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    pipe_at(&pipe);
    let error = Config::read(&pipe).unwrap_err().to_string();
    assert!(error.contains("it is a pipe"), "{error}");
    assert!(matches!(Config::read(Path::new("/dev/zero")), Err(ConfigError::TooLarge { .. })));
    assert_eq!(Config::read(Path::new("/dev/null")).unwrap(), Config::default());
}

fn pipe_at(path: &Path) {
    use rustix::fs::Mode;

    let mode = Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
}

#[test]
fn nobody_is_asked_for_names_of_containers_where_the_socket_is_empty() {
    assert_eq!(parse("names_socket = \"\"").unwrap().names_socket, None);
    let named = parse("names_socket = \"/run/x.sock\"").unwrap().names_socket;
    assert_eq!(named.as_deref(), Some(Path::new("/run/x.sock")));
}
