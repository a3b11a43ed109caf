//! Names of options, variables, headers and fields: which of them hold a secret.

use super::{abbreviated, foreign, values};

/// What kind of secret a name is for, and with it which values are none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sort {
    /// People choose it: anything may be one.
    Password,
    /// A program gave it.
    Token,
    /// `token` alone may be one of a text, or a count of them.
    Bare,
    /// Often the name of a file that holds it: private keys, credentials.
    Material,
    /// The name says little: only a value that a machine made.
    Key,
    /// An option named `key` alone, or like a service: the name says still less.
    Alone,
    /// `user:password`, or a key.
    Login,
    /// A header that begins with a scheme: `Bearer V`.
    Authorization,
    /// Many values of a site, as they stand in a header.
    Cookie,
    /// The same in options and fields.
    Cookies,
    /// Digits to be typed in: `pin`, `otp`. Pins and processors are numbered with fewer.
    Code,
    /// What goes into a hash, or a token under a short name: not where it is a number or a word.
    Made,
    /// The key of an account or of a licence, which sites print in groups, too.
    Account,
    /// `session`: mostly the name of one.
    Session,
    /// `pk`, `sk`: as little a name as [`Sort::Key`], and rows have numbers.
    Initials,
    /// `login`: `user:password`, or a user.
    Pair,
    /// `--tok`: a token, or a tokenizer, which has the name of a model or of a file.
    Cut,
}

impl Sort {
    /// Whether a value under such a name is a secret.
    pub(super) fn holds(self, value: &[u8]) -> bool {
        !values::says_nothing(value)
            && match self {
                Self::Password => true,
                // `--secret id=NAME,src=FILE`.
                Self::Token => !value.starts_with(b"id="),
                Self::Bare | Self::Authorization => !values::is_count(value),
                Self::Material => !values::is_path(value) && !values::is_count(value),
                Self::Key => values::is_random(value) || values::is_tangled(value),
                // A1111's `--ngrok V:user:password`, too.
                Self::Alone => {
                    let key = value.split(|byte| *byte == b':').next().unwrap_or_default();
                    values::is_random(key) && values::is_tangled(key)
                }
                Self::Login => {
                    is_pair(value)
                        || values::is_random(value)
                        || values::is_base64(value)
                        || values::is_tangled(value)
                        || values::is_made(value) && !values::is_method(value)
                }
                Self::Pair => is_pair(value),
                Self::Cut => {
                    values::is_tangled(value) && !values::has_sizes(value)
                        || values::is_unlike_names(value)
                }
                Self::Cookie | Self::Cookies => {
                    values::looked(value).contains(&b'=') || values::is_made(value)
                }
                Self::Code => is_code(value) || values::is_made(value),
                Self::Made => {
                    values::is_made(value)
                        || values::is_random(value)
                        || values::is_base64(value) && !values::is_path(value)
                }
                Self::Account => {
                    Self::Made.holds(value) && !value.contains(&b'/') || values::is_serial(value)
                }
                Self::Session => values::is_session(value),
                Self::Initials => values::is_random(value) && !values::is_uuid(value),
            }
    }
}

/// `user:password`. What an address holds is found in addresses.
fn is_pair(value: &[u8]) -> bool {
    let value = values::looked(value);
    let colon = value.iter().position(|byte| *byte == b':');
    colon.is_some_and(|colon| !value.get(colon..).unwrap_or_default().starts_with(b"://"))
}

/// `$NAME:$PASSWORD`.
pub(super) fn is_pair_of_references(value: &[u8]) -> bool {
    let mut parts = value.splitn(2, |byte| *byte == b':').skip(1);
    parts.next().is_some_and(values::is_reference)
}

/// Whether a word after such a pair is one more: a host with a port, an image with a tag and a module are none.
pub(super) fn is_further_pair(value: &[u8]) -> bool {
    let colon = value.iter().position(|byte| *byte == b':').filter(|colon| *colon > 0);
    let password = colon.and_then(|colon| value.get(colon.saturating_add(1)..)).unwrap_or_default();
    is_pair(value)
        && !value.contains(&b'/')
        && !password.iter().all(u8::is_ascii_alphabetic)
        && !values::is_count(password)
        && !values::is_version(password)
        && !values::is_option(value)
}

/// Digits that are asked for.
fn is_code(value: &[u8]) -> bool {
    (4..=16).contains(&value.len()) && value.iter().all(u8::is_ascii_digit)
}

// Lists are texts with blanks between their words.

/// Ends of a name without its separators, so long that nothing else ends in them.
const PASSWORDS: &str = "password passwords passwd passphrase passcode passwort kennwort pwd pswd passw storepass \
    keypass requirepass masterauth rediscliauth secretstring secretbinary secretvalue dbpass rootpass userpass \
    rootpw userpw adminpw dbpw bindpw proxypw smtppw mailpw sqlpw loginpw sshpw keypw storepw \
    adminpass smtppass mailpass ftppass httppass sudopass becomepass proxypass sshpass mypass tlspass authpass \
    loginpass apikey apikeys apitoken apitokens authtoken authtokens accesstoken accesstokens refreshtoken \
    sessiontoken securitytoken bearertoken hubtoken hftoken githubtoken gitlabtoken bottoken secrettoken privatetoken \
    jwttoken tokensecret sastoken registrationtoken jointoken webhooktoken personalaccesstoken p2ptoken bearer oauth2bearer \
    oauthbearer jwt secretkey accesskey accesskeys accountkey sharedkey storagekey subscriptionkey masterkey authkey \
    applicationkey appkey adminkey adminkeys servicekey servicerolekey functionskey consumerkey stripekey openaikey \
    encryptionkey encryptkey decryptionkey cryptokey signingkey signkey hmackey unsealkey presharedkey psk sessionkey \
    integrationkey unlockkey recoverykey mnemonic seedphrase";
const TOKENS: &str = "secret secrets";
const MATERIAL: &str = "privatekey privkey sshkey credential credentials creds certificatekey serviceaccountkey \
    deploykey keymaterial secretkeybase authuserpass";
/// A token of a model or of a text, not of an account, when one of these stands before it.
const OF_TEXT: &str = "bos eos pad unk sep cls mask stop special placeholder initializer image start end next first \
    last eot eom fim prefix suffix middle begin per max min num new draft bonus current cur video audio tool think \
    reasoning blank space class trigger target instance modifier word text prompt output input generated completion \
    implicit extra chunk decoder encoder single every each total by sub vocab eod sot eog language task as to added \
    add separator speech vision patch register latent control role turn mid";
/// One of these before `tokens` makes them keys; all other tokens are counted.
const OF_ACCOUNT: &str = "api auth access secret bearer refresh";
/// A pass that is no password, when one of these stands before it.
const PASSES: &str = "multi one two single first second third by low high band all forward backward render per num n \
    opt each depth hires refiner last final";
/// A key that is none of an account, when one of these stands before it.
const KEYS: &str = "public pub primary foreign partition sort cache bucket object group hash hashed index \
    host map column prefix label dataset text image caption input output row range idempotency dedupe metadata meta value \
    batch state config feature data json num kv attention query part wheel hot short lock lookup shard file path name \
    type size train eval val sample audio video reward prompt response answer question chat message messages target source \
    src dst id ids context model layer ckpt checkpoint block module weight weights tensor tag experiment run step time \
    timestamp date sequence obs observation action mask embedding latent frame node edge registry dict document doc content \
    title summary chosen rejected score reference ref stop trigger menu keyboard function foreground";
/// Whose key it is, where that is an account or a licence: nearly always a secret.
const ACCOUNTS: &str = "wandb kaggle license licence comet neptune ngrok clearml hf huggingface openrouter anthropic claude \
    gemini groq mistral cohere deepseek together replicate runpod lambda tavily serper pinecone civitai roboflow ultralytics \
    elevenlabs deepgram assemblyai nvidia ngc datadog newrelic posthog langsmith langfuse stability bfl";
/// Services whose token some programs take from an option of this name alone.
const SERVICES: &str = "hf huggingface ngrok openai anthropic wandb usewandb kaggle civitai";
/// A name that begins with one of these is a switch: the word after it is none of its own.
const SWITCHES: &str = "no ask disable enable allow require return prompt show hide print without skip generate gen has \
    is check cors list use";
/// What a key is of, after it: `api_key_comfy_org`, and not `api_key_file`.
const ABOUT: &str = "file files path dir id ids name names type url uri env var length len size limit count header \
    hash format field column prefix suffix ttl expiry expires timeout policy min max mode store provider source alg \
    algorithm version ref command cmd helper fd rotation required enabled index location store manager valid regex \
    variable role hint strength reset protected encoder check threshold shares budget usage stdin ask askpass eval \
    passwordeval";
/// A code that is a secret has one of these before it.
const CODES: &str =
    "mfa otp totp 2fa pin sms token verification security activation factor time backup recovery";
/// What is not the secret of an account, inside of a thing that is for secrets.
const PLAIN: &str = "type name names user username users login id ids url uri urls host hostname port path paths file files \
    email mail realm kind mode method scheme provider region alg algorithm expires expiry enabled version api apiversion \
    namespace server domain client clientid role roles scope scopes policy format env label labels description \
    mount field key ref from source account accountid project tenant tenantid username database db ttl";
/// In what form it is, or what may be done with it: `secret_b64` (a number at the end is gone before), `tokenValue`.
const FORMS: &str = "b base hex raw value val str string plain plaintext cleartext hash hashed enc encoded decoded encrypted \
    write read rw ro";
/// The same of many.
const FORMS_OF_MANY: &str = "json yaml yml list map dict";
/// Words that are written with digits for letters: `passw0rd`.
const SPELLED: &str = "password passwd passwort passphrase secret token apikey";
/// Longer names are looked at by their end.
const NAME_MAX: usize = 96;
/// More parts than this decide nothing.
const PARTS_MAX: usize = 16;

fn has(list: &str, word: &str) -> bool {
    list.split_ascii_whitespace().any(|known| known == word)
}

fn ends(list: &str, compact: &str) -> bool {
    list.split_ascii_whitespace().any(|end| compact.ends_with(end))
}

/// What kind of secret this name is for. Case, and what separates its parts, do not matter.
pub(super) fn sort(name: &[u8]) -> Option<Sort> {
    let name = tail(name);
    // `password2` and `HF_TOKEN_1` are as good as the first.
    let numbered =
        name.iter().rev().take_while(|byte| byte.is_ascii_digit() || **byte == b'_').count();
    let name = name.get(..name.len().saturating_sub(numbered))?;
    let compact = compact(name);
    if foreign::is_candidate(&compact) {
        let found = foreign::sort(&parts(name), &compact);
        if found.is_some() {
            return found;
        }
    }
    if !is_candidate(&compact) {
        let is_spelled = compact.bytes().any(|byte| byte.is_ascii_digit()) && is_spelled(name);
        return is_spelled.then_some(Sort::Made);
    }
    match compact.as_str() {
        "cookie" | "setcookie" => return Some(Sort::Cookie),
        // Of a URL, an option, and headers of single sites.
        "sig" | "xamzsignature" | "xgoogsignature" | "sonarlogin" | "dsonarlogin"
        | "xhoneycombteam" | "xauth" | "xkey" | "bwsession" => return Some(Sort::Token),
        "login" => return Some(Sort::Pair),
        // The id with which one logs in to Vault is its secret.
        "signature" | "secretid" => return Some(Sort::Key),
        // Where a shell stands.
        "pwd" | "oldpwd" | "initcwd" => return Some(Sort::Material),
        _ => {}
    }
    // With a letter in front: curl's `-HAuthorization: V`.
    if compact.ends_with("authorization") {
        return Some(Sort::Authorization);
    }
    let parts = parts(name);
    let last = parts.last()?.as_str();
    let before = parts.iter().rev().nth(1).map_or("", String::as_str);
    // A secret of this name stands elsewhere.
    if matches!(before, "existing" | "pull" | "create" | "from") && last.starts_with("secret") {
        return None;
    }
    if ends(MATERIAL, &compact) {
        return Some(Sort::Material);
    }
    if ends(PASSWORDS, &compact) {
        return Some(Sort::Password);
    }
    if ends(TOKENS, &compact) {
        return Some(Sort::Token);
    }
    match last {
        "token" => (!has(OF_TEXT, before)).then_some(Sort::Bare),
        "tokens" if has(OF_ACCOUNT, before) => Some(Sort::Password),
        // Counted, mostly.
        "tokens" => (!has(OF_TEXT, before)).then_some(Sort::Made),
        "keys" => (!has(KEYS, before)).then_some(Sort::Key),
        "pass" | "pw" | "psw" => (!has(PASSES, before)).then_some(Sort::Password),
        "auth" | "basicauth" | "httpauth" | "proxyauth" => Some(Sort::Login),
        "key" if has(ACCOUNTS, before) => {
            (!parts.iter().any(|part| part == "public")).then_some(Sort::Account)
        }
        "key" => (parts.len() > 1 && !has(KEYS, before)).then_some(Sort::Key),
        "cred" => Some(Sort::Material),
        "cookie" | "cookies" => Some(Sort::Cookies),
        "pin" | "pincode" | "otp" | "totp" | "puk" | "mfa" | "2fa" => Some(Sort::Code),
        "code" => has(CODES, before).then_some(Sort::Code),
        "salt" | "nonce" | "hmac" | "pepper" | "pat" | "sas" | "csrf" | "xsrf" | "wif" | "xprv" => {
            Some(Sort::Made)
        }
        "session" => Some(Sort::Session),
        "pk" | "sk" | "ak" => Some(Sort::Initials),
        _ => sort_by_inside(name, &compact, &parts),
    }
}

/// What kind of secret a name is for that has the word for it inside, and others behind it.
fn sort_by_inside(name: &[u8], compact: &str, parts: &[String]) -> Option<Sort> {
    const OF_KEY: &[&str] =
        &["apikey", "secretkey", "accesskey", "password", "authtoken", "apitoken"];
    let last = parts.last()?.as_str();
    let before = parts.iter().rev().nth(1).map_or("", String::as_str);
    // Terraform's TF_TOKEN_app_terraform_io.
    let has_key = compact.starts_with("tftoken") || OF_KEY.iter().any(|key| compact.contains(key));
    let is_inside = has_key && !parts.iter().any(|part| has(ABOUT, part));
    // The header itself, where it is no name of one.
    let is_header = last == "header" && matches!(before, "auth" | "authorization");
    let is_form = || has(FORMS, last) && sort(without(name, last)).is_some_and(is_value);
    (is_inside || is_header || is_form() || is_spelled(name)).then_some(Sort::Made)
}

/// Whether one value alone is a secret of this kind.
const fn is_value(sort: Sort) -> bool {
    !matches!(sort, Sort::Cookie | Sort::Cookies | Sort::Session | Sort::Pair | Sort::Code)
}

/// A name before its last part.
fn without<'a>(name: &'a [u8], last: &str) -> &'a [u8] {
    let end = name.iter().rposition(u8::is_ascii_alphanumeric).map_or(0, |at| at.saturating_add(1));
    name.get(..end.saturating_sub(last.len())).unwrap_or_default()
}

/// Whether a part of it is such a word with digits for some of its letters.
fn is_spelled(name: &[u8]) -> bool {
    let letter = |digit: char| match digit {
        '0' => 'o',
        '1' => 'i',
        '3' => 'e',
        '4' => 'a',
        '5' => 's',
        '7' => 't',
        other => other,
    };
    parts(name).iter().any(|part| {
        part.bytes().any(|byte| byte.is_ascii_digit())
            && has(SPELLED, &part.chars().map(letter).collect::<String>())
    })
}

/// The same of an option: `--key V` and `--hf V` mean something that `key` in a text does not.
pub(super) fn sort_of_option(name: &[u8]) -> Option<Sort> {
    let is_alone = |compact: &str| compact == "key" || has(SERVICES, compact);
    // `-hft V` of llama.cpp's programs (common/arg.cpp).
    if name == b"hft" {
        return Some(Sort::Material);
    }
    sort(name)
        .or_else(|| is_alone(&compact(tail(name))).then_some(Sort::Alone))
        .or_else(|| abbreviated::sort(tail(name)))
}

/// What kind of secrets a list or an object of this name holds, which may be others than one value under it is.
pub(super) fn sort_of_many(name: &[u8]) -> Option<Sort> {
    let parts = parts(tail(name));
    let last = parts.last().map_or("", String::as_str);
    let before = parts.iter().rev().nth(1).map_or("", String::as_str);
    sort(name).or_else(|| match last {
        "auths" => Some(Sort::Login),
        // Of a Secret of Kubernetes.
        "data" => (before == "string").then_some(Sort::Token),
        _ if has(FORMS_OF_MANY, last) => sort(without(name, last)),
        _ => None,
    })
}

/// Whether what has this name inside of such a thing is none of its secrets.
pub(super) fn is_plain(name: &[u8]) -> bool {
    let compact = compact(tail(name));
    has(PLAIN, &compact) || ends("name ref file path", &compact)
}

/// Whether a command of this name is one that says a secret: `--passwordeval`, `GIT_ASKPASS`.
pub(super) fn is_of_secrets(name: &[u8]) -> bool {
    let compact = compact(tail(name));
    ["pass", "token", "secret"].iter().any(|hint| compact.contains(hint))
}

/// Whether a call of this name is given a secret: `set_password(V)`, SQL's `PASSWORD(V)`.
pub(super) fn is_setter(name: &[u8]) -> bool {
    let first =
        parts(name.rsplit(|byte| *byte == b'.').next().unwrap_or_default()).into_iter().next();
    first.is_some_and(|first| {
        has("set with use add auth change update reset password passwd", &first)
    })
}

/// The same of a switch that takes a value in some programs: `--use_auth_token V`.
pub(super) fn sort_of_switch(name: &[u8]) -> Option<Sort> {
    let is_use = parts(tail(name)).first().is_some_and(|first| first == "use");
    sort(name).filter(|_| is_use).map(|_| Sort::Alone)
}

/// Whether an option of this name takes no value in the word after it.
pub(super) fn is_switch(name: &[u8]) -> bool {
    let first = parts(tail(name)).into_iter().next().unwrap_or_default();
    // OpenRLHF's `--use_wandb V`.
    has(SWITCHES, &first) && !has(SERVICES, &compact(tail(name)))
}

/// Whether an option of this name may have several values, which look like keys: vLLM's `--api-key V V`.
pub(super) fn is_many(name: &[u8]) -> bool {
    compact(tail(name)) == "apikey"
}

/// Whether an option of this name may have several `user:password`: `--auth A:V B:V`.
pub(super) fn is_logins(name: &[u8]) -> bool {
    parts(tail(name)).last().is_some_and(|last| last == "auth")
}

/// Whether an option is for a user: `--user`, `--http-user`.
pub(super) fn is_user(name: &[u8]) -> bool {
    let parts = parts(tail(name));
    let mut behind = parts.iter().rev().map(String::as_str);
    // `--run-as-user NAME:GROUP`.
    behind.next() == Some("user") && behind.next() != Some("as")
}

/// Whether an option of this name may have several values.
pub(super) fn is_plural(name: &[u8]) -> bool {
    let compact = compact(tail(name));
    ["keys", "tokens", "secrets", "passwords"].iter().any(|end| compact.ends_with(end))
}

fn tail(name: &[u8]) -> &[u8] {
    let from = name.len().saturating_sub(NAME_MAX);
    name.get(from..).unwrap_or(name)
}

fn compact(name: &[u8]) -> String {
    let kept = name.iter().filter(|byte| byte.is_ascii_alphanumeric());
    kept.map(|byte| char::from(byte.to_ascii_lowercase())).collect()
}

/// Whether it is worth a closer look; most names are not.
fn is_candidate(compact: &str) -> bool {
    const HINTS: &[&str] = &["pass", "kennwort", "wort", "token", "secret", "key", "auth", "cred"];
    const ENDS: &str = "pwd cwd pw psw pswd cookie cookies bearer jwt psk sig signature pat mnemonic seedphrase login \
        session xhoneycombteam pin pincode otp puk mfa 2fa code salt nonce hmac pepper sas csrf xsrf wif xprv pk sk ak";
    HINTS.iter().any(|hint| compact.contains(hint)) || ends(ENDS, compact)
}

/// Its parts in lower case: between separators, and where a capital follows a small letter.
pub(super) fn parts(name: &[u8]) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    let mut part = String::new();
    let mut previous = b'-';
    for (place, byte) in name.iter().enumerate() {
        let next_is_lower = name.get(place.saturating_add(1)).is_some_and(u8::is_ascii_lowercase);
        let begins = byte.is_ascii_uppercase()
            && (previous.is_ascii_lowercase() || previous.is_ascii_uppercase() && next_is_lower);
        if (begins || !byte.is_ascii_alphanumeric()) && !part.is_empty() {
            parts.push(std::mem::take(&mut part));
        }
        if byte.is_ascii_alphanumeric() {
            part.push(char::from(byte.to_ascii_lowercase()));
        }
        previous = *byte;
    }
    if !part.is_empty() {
        parts.push(part);
    }
    let from = parts.len().saturating_sub(PARTS_MAX);
    parts.split_off(from)
}
