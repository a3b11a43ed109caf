//! Names for secrets in other languages: whole words of a name, since their beginnings and ends are in other words,
//! too.
//!
//! The words are those that the dictionaries have for "password" and "secret", and those for a key only where
//! another word says what it opens: `clave` and `Schlüssel` alone are columns of tables.

use super::decoded::Decoded;
use super::names::Sort;

/// de, es, fr, it, pt, nl, pl, cs, hu, sv, da, no, fi, tr and ru in Latin letters.
const PASSWORDS: &str = "passwort kennwort losungswort geheimnis contrasena contrasenia contrasenya motdepasse senha wachtwoord haslo \
    heslo jelszo losenord adgangskode passord salasana parola parol sifre pasahitza \
    geheim secreto segredo segreto sekret hemlighet hemmelighet";
/// The same of two words and more, and keys with what they open.
const COMPOUNDS: &str = "motdepasse motpasse palabraclave palavrapasse parolachiave parolaacces geheimschluessel apischluessel \
    zugangsschluessel zugriffsschluessel privatschluessel privaterschluessel lizenzschluessel clavesecreta claveprivada \
    claveapi clavedeapi claveacceso clavedeacceso apiclave chavesecreta chaveapi chavedeapi apichave clesecrete cleapi \
    cledapi cleprivee apicle chiavesegreta chiaveapi chiaveprivata kluczapi geheimesleutel apisleutel zugangstoken \
    zugriffstoken";
/// French for a password, and a process that decides (Markov's): by the word before it, or by its value.
const MDP: &str = "mdp";
const OF_ACCOUNT: &str =
    "db bdd root admin user utilisateur mysql pg postgres smtp ftp ssh mail compte login api";
/// In other letters, and what is as good in Latin ones.
const LETTERS: &[(&str, &str)] = &[
    ("пароль", "password"),
    ("Пароль", "password"),
    ("ПАРОЛЬ", "password"),
    ("секрет", "secret"),
    ("СЕКРЕТ", "secret"),
    ("密码", "password"),
    ("密碼", "password"),
    ("口令", "password"),
    ("密钥", "secretkey"),
    ("パスワード", "password"),
    ("暗証番号", "password"),
    ("비밀번호", "password"),
    ("contraseña", "contrasena"),
    ("CONTRASEÑA", "contrasena"),
    ("Contraseña", "contrasena"),
    ("hasło", "haslo"),
    ("Hasło", "haslo"),
    ("HASŁO", "haslo"),
    ("jelszó", "jelszo"),
    ("lösenord", "losenord"),
    ("şifre", "sifre"),
    ("schlüssel", "schluessel"),
    ("Schlüssel", "schluessel"),
    ("SCHLÜSSEL", "schluessel"),
    ("clé", "cle"),
    ("secrète", "secrete"),
    // What a word processor makes of two dashes and of one, and blanks that no shell parts words at.
    ("—", "--"),
    ("―", "--"),
    ("–-", "--"),
    ("-–", "--"),
    ("––", "--"),
    ("–", "--"),
    ("－", "-"),
    ("﹣", "-"),
    ("−", "-"),
    ("‐", "-"),
    ("‑", "-"),
    ("\u{a0}", " "),
    ("\u{202f}", " "),
    ("\u{2007}", " "),
    ("\u{2009}", " "),
    ("\u{3000}", " "),
];

fn has(list: &str, word: &str) -> bool {
    list.split_ascii_whitespace().any(|known| known == word)
}

/// Whether a name without its separators may be one.
pub(super) fn is_candidate(compact: &str) -> bool {
    [PASSWORDS, COMPOUNDS, MDP]
        .iter()
        .any(|list| list.split_ascii_whitespace().any(|end| compact.ends_with(end)))
}

/// What kind of secret a name of these parts is for.
pub(super) fn sort(parts: &[String], compact: &str) -> Option<Sort> {
    let last = parts.last()?;
    let before = parts.iter().rev().nth(1).map_or("", String::as_str);
    // A compound may have words before it, which end where a part does.
    let mut tails = (0..parts.len()).filter_map(|from| parts.get(from..).map(<[String]>::concat));
    if has(PASSWORDS, last) || has(COMPOUNDS, compact) || tails.any(|tail| has(COMPOUNDS, &tail)) {
        return Some(Sort::Password);
    }
    if last == MDP {
        return Some(if has(OF_ACCOUNT, before) { Sort::Password } else { Sort::Cut });
    }
    None
}

/// A word with what is in other letters in Latin ones; `None` where nothing is.
pub(super) fn in_latin(word: &[u8]) -> Option<Decoded> {
    if word.is_ascii() {
        return None;
    }
    let known = |rest: &[u8]| {
        LETTERS.iter().find(|(letters, _)| rest.starts_with(letters.as_bytes())).copied()
    };
    let mut decoded = Decoded::default();
    let mut is_other = false;
    let mut place: usize = 0;
    while let Some(byte) = word.get(place) {
        let rest = word.get(place..).unwrap_or_default();
        let is_letter = byte.is_ascii_alphabetic() || !byte.is_ascii();
        let found = known(rest).filter(|_| is_letter);
        let (length, latin) = found.map_or((1, std::slice::from_ref(byte)), |(letters, latin)| {
            (letters.len(), latin.as_bytes())
        });
        is_other |= found.is_some();
        let end = place.saturating_add(length);
        for byte in latin {
            decoded.push(*byte, place..end);
        }
        place = end;
    }
    is_other.then_some(decoded)
}
