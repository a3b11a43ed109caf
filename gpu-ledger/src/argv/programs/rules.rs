//! The programs, their options and their words. From their manuals; lists are texts with blanks.

use Takes::{After, Joined, Login, Object, PassPrefix, Value};

/// What an option's value holds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Takes {
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
    /// An object with secrets somewhere in it.
    Object,
}

/// Programs, a word that must stand before (where one is named), the option. Lists are texts with blanks.
pub(super) type Rule = (&'static str, &'static str, &'static str, Takes);

pub(super) const MYSQL: &str = "mysql mysqldump mysqladmin mysqlimport mysqlcheck mysqlshow mysqlsh mysqlslap mysqlbinlog mariadb \
    mariadb-dump mariadb-admin mycli xtrabackup mariabackup";
const REGISTRIES: &str = "docker podman nerdctl buildah skopeo oras crane helm oc cf az argocd regctl ibmcloud apptainer \
    singularity";
const CURL: &str = "curl curlie";
const OPENSSL: &str = "openssl";
const REDIS: &str = "redis-cli redis-benchmark valkey-cli keydb-cli";
const SNMP: &str = "snmpget snmpwalk snmpset snmpbulkwalk snmpgetnext snmptrap";
const LDAP: &str =
    "ldapsearch ldapmodify ldapadd ldapdelete ldapwhoami ldapmodrdn ldapcompare ldappasswd";
const VAULT: &str = "vault bao";
const SMB: &str = "smbclient smbget rpcclient net winexe";
const MONGO: &str =
    "mongo mongosh mongodump mongorestore mongoexport mongoimport mongostat mongotop mongofiles";
const ERLANG: &str = "erl iex elixir rabbitmqctl rabbitmq-diagnostics werl";

pub(super) const RULES: &[Rule] = &[
    (MYSQL, "", "-p", Joined),
    ("sshpass", "", "-p", Joined),
    ("sshpass", "", "-p", Value),
    (REGISTRIES, "login", "-p", Joined),
    (REGISTRIES, "login", "-p", Value),
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
    ("http https httpie xh xhs", "bearer", "-a", Value),
    ("http https httpie xh xhs hey", "", "-a", Login),
    ("ab", "", "-A", Login),
    ("ab", "", "-P", Login),
    ("etcdctl", "", "--user", Login),
    ("hf huggingface-cli", "jobs", "--secrets", After(b'=')),
    ("hf huggingface-cli", "jobs", "-s", After(b'=')),
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
    (SMB, "", "-U", After(b'%')),
    (SMB, "", "--user", After(b'%')),
    ("mount mount.cifs mount.smb3", "", "-o", After(b'%')),
    ("sqlcmd osql bcp tsql ipmitool p4", "", "-P", Value),
    ("sqlcmd osql bcp tsql ipmitool p4", "", "-P", Joined),
    ("mosquitto_pub mosquitto_sub mosquitto_rr", "", "-P", Value),
    (MONGO, "", "-p", Value),
    (MONGO, "", "-p", Joined),
    ("twine", "upload", "-p", Joined),
    ("beeline", "", "-p", Value),
    (ERLANG, "", "-setcookie", Value),
    (ERLANG, "", "--cookie", Value),
    (ERLANG, "", "--erlang-cookie", Value),
    ("nats-server gnatsd", "", "--auth", Value),
    ("vercel glab k3s", "", "-t", Value),
    ("supabase racadm redfishtool", "", "-p", Value),
    ("netlify", "", "--auth", Value),
    ("wandb", "login", "--key", Value),
    ("clearml-init clearml-agent", "", "--key", Value),
    (OPENSSL, "passwd", "-salt", Value),
    (OPENSSL, "", "-kdfopt", After(b':')),
    ("pkcs11-tool pkcs15-tool pkcs15-init", "", "-p", Value),
    ("open", "", "-u", After(b',')),
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
    ("ssh-keygen", "", "-N", Joined),
    ("ssh-keygen", "", "-P", Value),
    ("useradd usermod", "", "-p", Value),
    ("swaks", "", "-ap", Value),
    ("sendemail sendEmail", "", "-xp", Value),
    ("xfreerdp xfreerdp3 wlfreerdp", "", "/p:", Joined),
    ("aws", "put-parameter", "--value", Value),
    ("az", "secret", "--value", Value),
    ("gh", "secret", "--body", Value),
    ("gh", "secret", "-b", Value),
    ("gh", "secret", "-b", Joined),
    ("kubectl oc k3s", "secret", "--from-literal", After(b'=')),
    ("kubectl oc k3s", "secret", "-p", Object),
    ("kubectl oc k3s", "secret", "--patch", Object),
    ("tritonserver", "", "--http-restricted-api", After(b'=')),
    ("tritonserver", "", "--grpc-restricted-protocol", After(b'=')),
];

/// Programs with a word that is a secret, and the word that must stand before it.
pub(super) const WORDS: &[(&str, &str, Word)] = &[
    ("wandb", "login", Word::Random),
    ("ngrok", "authtoken", Word::Next),
    ("ngrok", "add-authtoken", Word::Next),
    (VAULT, "login", Word::Random),
    (VAULT, "login", Word::OldToken),
    (VAULT, "unseal", Word::Next),
    (VAULT, "token", Word::OldToken),
    (VAULT, "unwrap", Word::OldToken),
    ("cargo", "login", Word::Next),
    (REDIS, "auth", Word::Any),
    (REDIS, "AUTH", Word::Any),
    (REDIS, "setuser", Word::AfterSign),
    (REDIS, "SETUSER", Word::AfterSign),
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
    ("etcdctl", "user", Word::Login),
    (VAULT, "kv", Word::Pair),
    (VAULT, "write", Word::OfVault),
    ("fly flyctl supabase doppler modal infisical wrangler", "secrets", Word::Pair),
    ("fly flyctl supabase doppler modal infisical wrangler", "secret", Word::Pair),
];

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
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
    /// The same, where it is written to a place for secrets or is the id that logs in: other things are written to
    /// Vault, too.
    OfVault,
    /// Any later `user:V`.
    Login,
    /// `>V` and `<V` of Redis' rules for a user.
    AfterSign,
}

/// Programs whose short options can be joined: `-sSu user:password`.
pub(super) const CLUSTERS: &str = "curl http";
/// Programs with whose `set`, `modify` or `config` a name and its value are two words.
pub(super) const SETTERS: &str = "aws dvc npm yarn pnpm git rclone pip poetry vastai runpodctl nmcli gcloud az litellm hf conda \
    mlflow redis-cli valkey-cli kubectl gh glab composer bundle snap s3cmd jupyter llm ngrok doctl oci pulumi heroku fly flyctl \
    vercel netlify gradient pppd consul etcdctl wpa_cli";
pub(super) const SETTINGS: &str =
    "set modify config configure update create connect put env:set SET CONFIG set_network";
/// Programs with which an option that sounds like a password asks for one.
pub(super) const ASKING: &str =
    "psql pg_dump pg_restore createdb dropdb createuser pg_basebackup pg_dumpall pgbench";
/// Programs with rules of their own, and some that end another's options.
pub(super) const OTHERS: &str = "ssh rsync scp ffmpeg mc mcli b2 rabbitmqctl wpa_passphrase htpasswd htdbm steamcmd steamcmd.sh dotnet mkpasswd filebrowser \
    mega-login";
/// Programs of Oracle's, which take `user/password@database`.
pub(super) const ORACLE: &str = "sqlplus sqlplus64 sqlcl expdp impdp sqlldr rman";
/// Programs among these that run another, and words behind which the others do.
pub(super) const RUNNERS: &str = "ssh sshpass";
pub(super) const RUNNING: &str = "exec run debug console rsh ssh";
pub(super) const SHELLS: &str = "sh bash dash ash zsh ksh fish";
