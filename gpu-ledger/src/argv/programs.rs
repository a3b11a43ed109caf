//! Programs whose options or words are secrets without a name that says so.
//!
//! From their manuals. A word that is one of these programs' file name begins its options, wherever it stands: behind
//! `env`, `sudo`, `docker exec` or `sh -c`.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::LazyLock;

use super::marks::{Marks, Piece};
use super::{text, values};

/// What an option's value holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Takes {
    /// The secret, in the next word, or after `=` behind a long option.
    Value,
    /// The secret, in the same word only: alone it asks for one.
    Joined,
    /// `user:password`.
    Login,
    /// The secret after this byte.
    After(u8),
    /// `pass:V`; `file:`, `env:` and the like hold none.
    PassPrefix,
}

/// Programs, a word that must stand before (where one is named), the option. Lists are texts with blanks.
type Rule = (&'static str, &'static str, &'static str, Takes);

use Takes::{After, Joined, Login, PassPrefix, Value};

const MYSQL: &str = "mysql mysqldump mysqladmin mysqlimport mysqlcheck mysqlshow mysqlsh mysqlslap mysqlbinlog mariadb \
    mariadb-dump mariadb-admin mycli xtrabackup mariabackup";
const REGISTRIES: &str =
    "docker podman nerdctl buildah skopeo oras crane helm oc cf az argocd regctl";
const CURL: &str = "curl curlie";
const OPENSSL: &str = "openssl";
const REDIS: &str = "redis-cli redis-benchmark valkey-cli keydb-cli";
const SNMP: &str = "snmpget snmpwalk snmpset snmpbulkwalk snmpgetnext snmptrap";
const LDAP: &str =
    "ldapsearch ldapmodify ldapadd ldapdelete ldapwhoami ldapmodrdn ldapcompare ldappasswd";
const VAULT: &str = "vault bao";

const RULES: &[Rule] = &[
    (MYSQL, "", "-p", Joined),
    ("sshpass", "", "-p", Joined),
    ("sshpass", "", "-p", Value),
    (REGISTRIES, "login", "-p", Joined),
    (REGISTRIES, "login", "-p", Value),
    (
        "docker podman nerdctl buildah skopeo oras crane helm oc cf az argocd regctl",
        "login",
        "-p",
        Value,
    ),
    ("skopeo buildah podman", "", "--creds", Login),
    ("skopeo", "", "--src-creds", Login),
    ("skopeo", "", "--dest-creds", Login),
    (REDIS, "", "-a", Value),
    (CURL, "", "-u", Login),
    (CURL, "", "--user", Login),
    (CURL, "", "-U", Login),
    (CURL, "", "--proxy-user", Login),
    (CURL, "", "-E", After(b':')),
    (CURL, "", "--cert", After(b':')),
    (CURL, "", "--proxy-cert", After(b':')),
    (CURL, "", "-b", After(b'=')),
    ("http https httpie xh xhs hey", "", "-a", Login),
    ("ab", "", "-A", Login),
    ("ab", "", "-P", Login),
    ("etcdctl", "", "--user", Login),
    ("ttyd gotty", "", "-c", Login),
    ("transmission-remote", "", "-n", Login),
    (OPENSSL, "", "-K", Value),
    (OPENSSL, "", "-k", Value),
    (OPENSSL, "", "-pass", PassPrefix),
    (OPENSSL, "", "-passin", PassPrefix),
    (OPENSSL, "", "-passout", PassPrefix),
    (OPENSSL, "", "-hmac", Value),
    (OPENSSL, "", "-macopt", After(b':')),
    ("zip unzip zipcloak", "", "-P", Value),
    ("7z 7za 7zr 7zz rar unrar", "", "-p", Joined),
    ("rar", "", "-hp", Joined),
    ("zip unzip zipcloak", "", "-P", Joined),
    (LDAP, "", "-w", Joined),
    (LDAP, "", "-w", Value),
    ("ldappasswd", "", "-s", Value),
    (SNMP, "", "-c", Value),
    (SNMP, "", "-A", Value),
    (SNMP, "", "-X", Value),
    ("lftp", "", "-u", After(b',')),
    ("smbclient smbget rpcclient net winexe", "", "-U", After(b'%')),
    ("sqlcmd osql bcp tsql ipmitool p4", "", "-P", Value),
    ("mosquitto_pub mosquitto_sub mosquitto_rr", "", "-P", Value),
    (
        "mongo mongosh mongodump mongorestore mongoexport mongoimport mongostat mongotop mongofiles",
        "",
        "-p",
        Value,
    ),
    (
        "cqlsh rabbitmqadmin twine rdesktop ncftp ncftpput ncftpget cypher-shell couchbase-cli cbq",
        "",
        "-p",
        Value,
    ),
    ("veracrypt yt-dlp youtube-dl", "", "-p", Value),
    ("poetry", "publish", "-p", Value),
    ("uv", "publish", "-t", Value),
    ("hatch", "publish", "-a", Value),
    ("airflow", "users", "-p", Value),
    ("doveadm", "pw", "-p", Value),
    ("caddy", "hash-password", "-p", Value),
    ("caddy", "hash-password", "--plaintext", Value),
    ("influx doctl codecov frpc", "", "-t", Value),
    ("gitlab-runner", "register", "-r", Value),
    ("gitlab-runner", "register", "-t", Value),
    ("openai swift", "", "-k", Value),
    ("prefect", "login", "-k", Value),
    ("prefect", "login", "--key", Value),
    ("llm", "", "--key", Value),
    ("llm", "keys", "--value", Value),
    ("dotnet nuget", "push", "-k", Value),
    ("swift", "", "-K", Value),
    ("interpreter", "", "-ak", Value),
    ("ssh-keygen", "", "-N", Value),
    ("ssh-keygen", "", "-P", Value),
    ("useradd usermod", "", "-p", Value),
    ("swaks", "", "-ap", Value),
    ("sendemail sendEmail", "", "-xp", Value),
    ("xfreerdp xfreerdp3 wlfreerdp", "", "/p:", Joined),
    ("aws", "put-parameter", "--value", Value),
    ("az", "secret", "--value", Value),
    ("gh", "secret", "--body", Value),
    ("gh", "secret", "-b", Value),
    ("kubectl oc k3s", "secret", "--from-literal", After(b'=')),
    ("tritonserver", "", "--http-restricted-api", After(b'=')),
    ("tritonserver", "", "--grpc-restricted-protocol", After(b'=')),
];

/// Programs with a word that is a secret, and the word that must stand before it.
const WORDS: &[(&str, &str, Word)] = &[
    ("wandb", "login", Word::Random),
    ("ngrok", "authtoken", Word::Next),
    ("ngrok", "add-authtoken", Word::Next),
    (VAULT, "login", Word::Random),
    (VAULT, "login", Word::OldToken),
    (VAULT, "unseal", Word::Next),
    (VAULT, "token", Word::OldToken),
    (VAULT, "unwrap", Word::OldToken),
    ("cargo", "login", Word::Next),
    (REDIS, "auth", Word::Next),
    (REDIS, "AUTH", Word::Next),
    ("rclone", "obscure", Word::Next),
    ("rclone", "password", Word::Pair),
    ("huggingface-cli hf", "login", Word::Random),
    (OPENSSL, "passwd", Word::Any),
    ("tailscale", "up", Word::Random),
    ("cloudflared", "install", Word::Random),
    ("gcloud", "activate-refresh-token", Word::Random),
    ("composer", "config", Word::Random),
    ("snyk", "auth", Word::Random),
    ("mysqladmin mariadb-admin", "password", Word::Next),
    ("bw", "unlock", Word::Next),
    ("ansible-vault", "encrypt_string", Word::Next),
    ("grafana-cli grafana", "reset-admin-password", Word::Next),
    ("neo4j-admin", "set-initial-password", Word::Next),
    (VAULT, "kv", Word::Pair),
    ("fly flyctl supabase doppler modal infisical wrangler", "secrets", Word::Pair),
    ("fly flyctl supabase doppler modal infisical wrangler", "secret", Word::Pair),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Word {
    /// The word right after it, unless it is an option.
    Next,
    /// Any later one.
    Any,
    /// Any later one that a machine made.
    Random,
    /// A later one that begins like a token of HashiCorp's Vault of old: `s.`.
    OldToken,
    /// Every later `NAME=V`.
    Pair,
}

/// Programs whose short options can be joined: `-sSu user:password`.
const CLUSTERS: &str = "curl http";
/// Programs with whose `set`, `modify` or `config` a name and its value are two words.
const SETTERS: &str = "aws dvc npm yarn pnpm git rclone pip poetry vastai runpodctl nmcli gcloud az litellm hf conda \
    mlflow redis-cli valkey-cli kubectl gh glab composer bundle snap s3cmd jupyter llm ngrok doctl oci pulumi heroku fly flyctl \
    vercel netlify gradient pppd";
const SETTINGS: &str = "set modify config configure update create connect CONFIG";
/// Programs with which an option that sounds like a password asks for one.
const ASKING: &str =
    "psql pg_dump pg_restore createdb dropdb createuser pg_basebackup pg_dumpall pgbench";
/// Programs with rules of their own, and some that end another's options.
const OTHERS: &str = "ssh rsync scp ffmpeg mc mcli b2 rabbitmqctl wpa_passphrase htpasswd steamcmd steamcmd.sh sqlplus";
const SHELLS: &str = "sh bash dash ash zsh ksh fish";
/// Words after a program that are looked at for what it is told to do.
const UNDER_MAX: usize = 10;

fn has(list: &str, word: &[u8]) -> bool {
    list.split_ascii_whitespace().any(|known| known.as_bytes() == word)
}

/// Every program that is named here: asked for with each word.
static KNOWN: LazyLock<BTreeSet<&'static [u8]>> = LazyLock::new(|| {
    let ruled = RULES.iter().map(|rule| rule.0).chain(WORDS.iter().map(|word| word.0));
    let lists = ruled.chain([OTHERS, SETTERS, ASKING, SHELLS]);
    lists.flat_map(str::split_ascii_whitespace).map(str::as_bytes).collect()
});

/// The program whose words these are, as far as it is known here.
#[derive(Default)]
pub(super) struct Context<'a> {
    program: &'a [u8],
    /// Words since it that are no options, the first few.
    under: Vec<&'a [u8]>,
    /// The word before the one that is looked at.
    before: &'a [u8],
    /// Where the program stands.
    place: usize,
    is_over: bool,
}

impl<'a> Context<'a> {
    /// The next word.
    pub(super) fn meets(&mut self, piece: &Piece<'a>, place: usize, pieces: &[Piece<'a>]) {
        let before = place.checked_sub(1).and_then(|before| pieces.get(before));
        self.before = before.map_or(b"", |piece| piece.text);
        let name = piece.text.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        if KNOWN.contains(name) {
            let (under, before) = (Vec::new(), self.before);
            *self = Self { program: name, under, before, place, is_over: false };
        } else if !piece.text.starts_with(b"-") {
            // Options of a program that runs another end where the other begins.
            self.is_over |= self.program == b"sshpass";
            if self.under.len() < UNDER_MAX {
                self.under.push(piece.text);
            }
        }
    }

    fn is_under(&self, word: &str) -> bool {
        word.is_empty() || self.under.contains(&word.as_bytes())
    }

    /// Whether a name and its value may be two words here.
    pub(super) fn takes_settings(&self) -> bool {
        has(SETTERS, self.program) && self.under.iter().any(|word| has(SETTINGS, word))
    }

    /// Whether the word that was met is a script: `sh -c SCRIPT`, `bash -lc SCRIPT`.
    pub(super) fn is_script(&self) -> bool {
        has(SHELLS, self.program) && matches!(self.before, [b'-', .., b'c'])
    }

    /// Whether this option takes no secret here, though it sounds so.
    pub(super) fn is_switch(&self, option: &[u8]) -> bool {
        let asks = has(ASKING, self.program) || has(MYSQL, self.program);
        asks && option == b"--password"
            // ffmpeg counts its passes.
            || self.program == b"ffmpeg" && option == b"-pass"
            // A name of a secret that is kept elsewhere, and that what follows is one.
            || has("docker podman nerdctl buildah pulumi", self.program) && option == b"--secret"
    }

    /// Marks what the program's own rules say of a word and the next; whether the next was its value.
    pub(super) fn mark(
        &self,
        piece: &Piece<'a>,
        next: Option<&Piece<'a>>,
        in_text: bool,
        marks: &mut Marks,
    ) -> bool {
        self.word(piece, marks);
        let refers = |value: &[u8]| in_text && values::is_reference(value);
        if self.is_over || piece.text.len() < 2 || !matches!(piece.text, [b'-' | b'/', ..]) {
            return false;
        }
        for (programs, under, option, takes) in RULES {
            if !has(programs, self.program) || !self.is_under(under) {
                continue;
            }
            let clusters = has(CLUSTERS, self.program);
            let option = option_of(piece.text, option.as_bytes(), *takes, clusters);
            let Some((begin, is_joined)) = option else { continue };
            if is_joined {
                if !refers(piece.text.get(begin..).unwrap_or_default()) {
                    taken(piece, begin, *takes, marks);
                }
                return false;
            }
            if *takes == Joined {
                continue;
            }
            let Some(next) = next else { return false };
            if values::is_option(next.text) || refers(next.text) {
                return false;
            }
            taken(next, 0, *takes, marks);
            return true;
        }
        false
    }

    /// A word that is a secret by where it stands.
    fn word(&self, piece: &Piece<'a>, marks: &mut Marks) {
        if piece.text.starts_with(b"-") || values::is_reference(piece.text) {
            return;
        }
        for (programs, after, kind) in WORDS {
            let is_after = piece.text != after.as_bytes() && self.is_under(after);
            if !has(programs, self.program) || !is_after {
                continue;
            }
            let is_secret = match kind {
                Word::Next => self.before == after.as_bytes() && !values::says_nothing(piece.text),
                Word::Any => !values::says_nothing(piece.text),
                Word::Random => values::is_random(piece.text),
                Word::OldToken => piece.text.starts_with(b"s.") && piece.text.len() >= 20,
                Word::Pair => {
                    taken(piece, 0, After(b'='), marks);
                    false
                }
            };
            if is_secret {
                marks.whole(piece);
            }
        }
    }

    /// Rules that count words, when all of them are known.
    pub(super) fn ends(&self, pieces: &[Piece<'a>], marks: &mut Marks) {
        let plain = || {
            let words = pieces.iter().skip(self.place.saturating_add(1));
            words.filter(|piece| !piece.text.starts_with(b"-"))
        };
        let place = match (self.program, self.under.as_slice()) {
            // alias set NAME URL ID V
            (b"mc" | b"mcli", [b"alias", b"set", ..]) => 5,
            (b"mc" | b"mcli", [b"config", b"host", b"add", ..]) => 6,
            (b"b2", [b"account", b"authorize", ..]) => 3,
            // authorize-account ID V, add_user USER V, login USER V
            (b"b2", [b"authorize-account" | b"authorize_account", ..])
            | (b"rabbitmqctl", [b"add_user" | b"change_password" | b"authenticate_user", ..])
            | (b"bw", [b"login", ..]) => 2,
            (b"wpa_passphrase", _) => 1,
            // USER/V@DATABASE
            (b"sqlplus", [login, ..]) => {
                let Some(piece) = plain().find(|piece| piece.text == *login) else { return };
                let end = login.iter().rposition(|byte| *byte == b'@').unwrap_or(login.len());
                if let Some(slash) = login.iter().position(|byte| *byte == b'/') {
                    marks.put(piece, slash.saturating_add(1)..end.max(slash));
                }
                return;
            }
            // -b [FILE] USER V: the last one.
            (b"htpasswd", _) => {
                let short =
                    |piece: &Piece<'_>| piece.text.starts_with(b"-") && piece.text.contains(&b'b');
                if !pieces.iter().skip(self.place).any(short) {
                    return;
                }
                plain().count().saturating_sub(1)
            }
            // Its console: +login USER V.
            (b"steamcmd" | b"steamcmd.sh", _) => {
                let Some(login) = plain().position(|piece| piece.text == b"+login") else { return };
                login.saturating_add(2)
            }
            _ => return,
        };
        let piece = plain().nth(place).filter(|piece| !piece.text.starts_with(b"+"));
        if let Some(piece) = piece.filter(|piece| !values::says_nothing(piece.text)) {
            marks.whole(piece);
        }
    }
}

/// Where the value of an option begins in this word; whether it is in this word at all.
fn option_of(word: &[u8], option: &[u8], takes: Takes, clusters: bool) -> Option<(usize, bool)> {
    if word == option {
        return Some((0, false));
    }
    if let Some(rest) = word.strip_prefix(option) {
        let is_long = option.len() > 3 || option.starts_with(b"--");
        return match (is_long, rest.first()) {
            (true, Some(b'=')) => Some((option.len().saturating_add(1), true)),
            (true, _) => None,
            // A word of its own may begin alike: `-key` with `-k`.
            (false, _) if matches!(takes, PassPrefix | Value) => None,
            (false, _) => Some((option.len(), true)),
        };
    }
    // A cluster that ends in the option's letter.
    match (option, word) {
        ([b'-', letter], [b'-', letters @ .., last]) if clusters && last == letter => {
            letters.iter().all(u8::is_ascii_alphabetic).then_some((0, false))
        }
        _ => None,
    }
}

/// Marks what a value that begins at `begin` holds.
fn taken(piece: &Piece<'_>, begin: usize, takes: Takes, marks: &mut Marks) {
    let inner = values::unquoted(piece.text.get(begin..).unwrap_or_default());
    let range = begin.saturating_add(inner.start)..begin.saturating_add(inner.end);
    let value = piece.text.get(range.clone()).unwrap_or_default();
    let after = |sign: u8| value.iter().position(|byte| *byte == sign);
    let mut put = |from: usize| {
        let range: Range<usize> = range.start.saturating_add(from)..range.end;
        if !values::says_nothing(piece.text.get(range.clone()).unwrap_or_default()) {
            marks.put(piece, range);
        }
    };
    match takes {
        Value | Joined => put(0),
        Login => match after(b':') {
            // A key as the user, with no password.
            Some(colon)
                if colon.saturating_add(1) == value.len()
                    && values::is_random(value.get(..colon).unwrap_or_default()) =>
            {
                marks.put(piece, range.start..range.start.saturating_add(colon));
            }
            Some(colon) => put(colon.saturating_add(1)),
            None if values::is_random(value) => put(0),
            None => {}
        },
        After(sign) => {
            if let Some(place) = after(sign) {
                put(place.saturating_add(1));
            }
        }
        PassPrefix if value.starts_with(b"pass:") => put(5),
        PassPrefix => {}
    }
    // Headers and addresses stand in values, too.
    text::whole(piece, marks);
}
