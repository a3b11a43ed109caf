//! How each interpreter is told what to run: which options name it, which take a word of their own.
//!
//! Taken from the interpreters' own manual pages and `--help` texts: Python 3.14, bash 5.3, dash,
//! fish 4, Node.js 24, Deno 2, Bun 1.3, Ruby 3.4, Perl 5.42, PHP 8.4, Lua 5.4, R 4.5, Julia 1.12,
//! OpenJDK 25, .NET 10, glibc 2.42 (`ld.so`), Wine 10.

/// The command line of one family of interpreters.
#[derive(Debug)]
pub(super) struct Grammar {
    /// The family's name: what an inline program is called by (`python -c`).
    pub(super) family: &'static str,
    /// Names of its executables, without a version. A version may follow: `python3.12`.
    pub(super) names: &'static [&'static str],
    /// Letters may be joined in one word (`-uc`).
    pub(super) clusters: bool,
    /// Options whose word is the program's text.
    pub(super) inline: &'static [&'static str],
    /// Whether words after an inline text are only arguments; otherwise a script may still follow.
    pub(super) inline_ends: bool,
    /// Options whose word is the script.
    pub(super) script: &'static [&'static str],
    /// Options whose word is a module, class or package.
    pub(super) module: &'static [&'static str],
    /// Options that take the next word where nothing is attached to them.
    pub(super) value: &'static [&'static str],
    /// Letters after which the rest of the word is theirs and never the next word.
    pub(super) attached: &'static str,
    /// A word after which nothing is the interpreter's own.
    pub(super) ends: &'static str,
    /// First words that are no script: `deno run FILE`.
    pub(super) subcommands: &'static [&'static str],
    /// What sets the family apart.
    pub(super) style: Style,
}

/// How a family differs from the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Style {
    /// Not at all.
    Plain,
    /// Options may also begin with `+`, and a letter's value is never in its own word.
    Shell,
    /// The word that is no option is a class, and one with `@` in front names a file of options.
    Java,
    /// A first word that looks like no file and is no known way to run one is a command of a tool.
    Tool,
    /// It only loads another executable, which may be an interpreter itself.
    Loader,
}

const PLAIN: Grammar = Grammar {
    family: "",
    names: &[],
    clusters: true,
    inline: &[],
    inline_ends: true,
    script: &[],
    module: &[],
    value: &[],
    attached: "",
    ends: "",
    subcommands: &[],
    style: Style::Plain,
};

/// Every family. A name stands in one of them only.
pub(super) const GRAMMARS: &[Grammar] = &[
    Grammar {
        family: "python",
        names: &["python", "pypy", "graalpy", "pythonw", "pyston"],
        inline: &["-c"],
        module: &["-m"],
        value: &["-W", "-X", "-Q", "--check-hash-based-pycs"],
        ..PLAIN
    },
    Grammar {
        family: "sh",
        names: &["sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "rbash"],
        inline: &["-c"],
        value: &["-o", "-O", "--rcfile", "--init-file"],
        style: Style::Shell,
        ..PLAIN
    },
    Grammar {
        family: "fish",
        names: &["fish"],
        inline: &["-c", "--command"],
        value: &[
            "-C",
            "--init-command",
            "-d",
            "--debug",
            "-o",
            "--debug-output",
            "-f",
            "--features",
        ],
        ..PLAIN
    },
    Grammar {
        family: "node",
        names: &["node", "nodejs"],
        clusters: false,
        inline: &["-e", "--eval", "-p", "--print", "-pe"],
        value: &[
            "-r",
            "--require",
            "--import",
            "--loader",
            "--experimental-loader",
            "-C",
            "--conditions",
            "--input-type",
            "--inspect-port",
            "--title",
            "--icu-data-dir",
            "--openssl-config",
            "--redirect-warnings",
            "--stack-trace-limit",
            "--env-file",
            "--env-file-if-exists",
            "--watch-path",
            "--diagnostic-dir",
            "--report-dir",
            "--test-name-pattern",
            "--test-reporter",
            "--unhandled-rejections",
        ],
        ..PLAIN
    },
    Grammar {
        family: "deno",
        names: &["deno"],
        clusters: false,
        value: &[
            "-c",
            "--config",
            "--import-map",
            "--lock",
            "--cert",
            "--location",
            "-L",
            "--log-level",
            "--ext",
            "--port",
            "--host",
            "--preload",
        ],
        subcommands: &["run", "serve", "test", "bench"],
        style: Style::Tool,
        ..PLAIN
    },
    Grammar {
        family: "bun",
        names: &["bun"],
        clusters: false,
        inline: &["-e", "--eval", "-p", "--print"],
        value: &[
            "-r",
            "--preload",
            "--cwd",
            "-c",
            "--config",
            "--env-file",
            "--port",
            "-d",
            "--define",
        ],
        subcommands: &["run", "x", "test"],
        style: Style::Tool,
        ..PLAIN
    },
    Grammar {
        family: "ruby",
        names: &["ruby", "jruby", "truffleruby"],
        inline: &["-e"],
        value: &[
            "-C",
            "-E",
            "-I",
            "-r",
            "-X",
            "--encoding",
            "--external-encoding",
            "--internal-encoding",
        ],
        attached: "FKTWix",
        ..PLAIN
    },
    Grammar {
        family: "perl",
        names: &["perl"],
        inline: &["-e", "-E"],
        value: &["-I"],
        attached: "CDFMVdimx",
        ..PLAIN
    },
    Grammar {
        family: "php",
        names: &["php", "php-cgi"],
        inline: &["-r", "-B", "-R", "-E", "-S", "--run", "--server"],
        script: &["-f", "-F", "--file", "--process-file"],
        value: &["-c", "-d", "-t", "-z", "--php-ini", "--define", "--docroot"],
        ..PLAIN
    },
    Grammar {
        family: "lua",
        names: &["lua", "luajit", "texlua"],
        inline: &["-e"],
        inline_ends: false,
        value: &["-l", "-j"],
        attached: "ObW",
        ..PLAIN
    },
    Grammar {
        family: "R",
        names: &["R", "Rscript"],
        clusters: false,
        inline: &["-e"],
        inline_ends: false,
        script: &["-f", "--file"],
        ends: "--args",
        value: &["-g", "--gui", "-d", "--debugger", "--encoding"],
        ..PLAIN
    },
    Grammar {
        family: "julia",
        names: &["julia"],
        inline: &["-e", "-E", "--eval", "--print"],
        module: &["-m"],
        value: &[
            "-L",
            "--load",
            "-J",
            "--sysimage",
            "-C",
            "--cpu-target",
            "-p",
            "--procs",
            "-t",
            "--threads",
            "-H",
            "--home",
            "--machine-file",
            "--gcthreads",
        ],
        attached: "Og",
        ..PLAIN
    },
    Grammar {
        family: "java",
        names: &["java"],
        clusters: false,
        script: &["-jar"],
        module: &["-m", "--module"],
        value: &[
            "-cp",
            "-classpath",
            "--class-path",
            "-p",
            "--module-path",
            "--upgrade-module-path",
            "--add-modules",
            "--add-opens",
            "--add-exports",
            "--add-reads",
            "--limit-modules",
            "--patch-module",
            "--enable-native-access",
            "--source",
            "-d",
            "--describe-module",
        ],
        style: Style::Java,
        ..PLAIN
    },
    Grammar {
        family: "dotnet",
        names: &["dotnet", "mono"],
        clusters: false,
        value: &[
            "--additionalprobingpath",
            "--additional-deps",
            "--depsfile",
            "--runtimeconfig",
            "--fx-version",
            "--roll-forward",
            "--config",
        ],
        subcommands: &["exec"],
        style: Style::Tool,
        ..PLAIN
    },
    Grammar {
        family: "ld.so",
        names: &["ld.so", "ld-linux-x86-64.so", "ld-linux-aarch64.so", "ld-musl-x86_64.so"],
        clusters: false,
        value: &[
            "--library-path",
            "--preload",
            "--audit",
            "--argv0",
            "--inhibit-rpath",
            "--glibc-hwcaps-prepend",
            "--glibc-hwcaps-mask",
        ],
        style: Style::Loader,
        ..PLAIN
    },
    Grammar {
        family: "wine",
        names: &["wine", "wine64", "wine-preloader", "wine64-preloader", "box64"],
        clusters: false,
        style: Style::Loader,
        ..PLAIN
    },
];

/// The family of an executable's base name.
pub(super) fn grammar_of(name: &[u8]) -> Option<&'static Grammar> {
    let bare = without_version(name);
    GRAMMARS.iter().find(|grammar| {
        grammar.names.iter().any(|known| {
            // `ksh93` and `zsh5` are shells; no version of one is called `sh2`.
            let is_versioned = !matches!(*known, "sh" | "ash" | "dash" | "rbash");
            known.as_bytes() == name || is_versioned && known.as_bytes() == bare
        })
    })
}

/// `python3.12`, `python3.13t`, `lua5.4`, `perl5.36.0` and `ld-linux-x86-64.so.2` without what
/// follows the name.
fn without_version(name: &[u8]) -> &[u8] {
    // `t` and `d` name builds of Python: free-threaded, debug.
    let end = name.strip_suffix(b"t").or_else(|| name.strip_suffix(b"d")).unwrap_or(name);
    let bare = |name: &[u8]| {
        name.iter().rposition(|byte| !(byte.is_ascii_digit() || matches!(byte, b'.' | b'-')))
    };
    match (bare(end), bare(name)) {
        // Only after a version is a `t` one of these; otherwise it ends a name.
        (Some(last), _) if end.len() < name.len() && last + 1 < end.len() => {
            name.get(..=last).unwrap_or(name)
        }
        (_, Some(last)) => name.get(..=last).unwrap_or(name),
        _ => name,
    }
}
