//! Words that are secrets by their number among a program's words.

use super::{Context, has, rules};
use crate::argv::marks::{Marks, Piece};
use crate::argv::values;

/// What of a shell's line is no word of the program.
const fn is_redirection(word: &[u8]) -> bool {
    matches!(word, [b'>' | b'<', ..] | [b'0'..=b'9' | b'&', b'>', ..])
}

impl<'a> Context<'a> {
    /// Marks them, when all words are known.
    pub(in crate::argv) fn ends(&self, pieces: &[Piece<'a>], marks: &mut Marks) {
        let words = || {
            let words = pieces.iter().skip(self.place.saturating_add(1));
            words.take_while(|piece| !is_redirection(piece.text))
        };
        let plain = || words().filter(|piece| !piece.text.starts_with(b"-"));
        let after = |word: &[u8], count: usize| {
            plain().position(|piece| piece.text == word).map(|place| place.saturating_add(count))
        };
        let place = match (self.program, self.under.as_slice()) {
            // alias set NAME URL ID V, admin user add NAME USER V
            (b"mc" | b"mcli", [b"alias", b"set", ..] | [b"admin", b"user", b"add", ..]) => Some(5),
            (b"mc" | b"mcli", [b"config", b"host", b"add", ..]) => Some(6),
            // account authorize ID V, users add USER V
            (b"b2", [b"account", b"authorize", ..]) | (b"filebrowser", [b"users", b"add", ..]) => {
                Some(3)
            }
            // authorize-account ID V, login USER V
            (b"b2", [b"authorize-account" | b"authorize_account", ..])
            | (b"bw", [b"login", ..])
            | (b"cf", [b"auth", ..]) => Some(2),
            // add_user USER V
            (b"rabbitmqctl", _) => after(b"add_user", 2)
                .or_else(|| after(b"change_password", 2))
                .or_else(|| after(b"authenticate_user", 2)),
            // config set --secret NAME V
            (b"pulumi", _) if words().any(|piece| piece.text == b"--secret") => after(b"set", 2),
            // [-m METHOD] V
            (b"mkpasswd", _) => Some(usize::from(words().any(|piece| piece.text == b"-m"))),
            // config http-basic.NAME USER V
            (b"poetry", [b"config", name, ..]) if name.starts_with(b"http-basic.") => {
                after(name, 2)
            }
            // user-secrets set NAME V
            (b"dotnet", [b"user-secrets", ..]) => after(b"set", 2),
            // activate-refresh-token ACCOUNT V
            (b"gcloud", _) => after(b"activate-refresh-token", 2),
            // SSID V, and USER V
            (b"wpa_passphrase" | b"mega-login", _) => Some(1),
            // USER/V@DATABASE
            (program, _) if has(rules::ORACLE, program) => {
                let login = plain().find(|piece| is_login(piece.text));
                if let Some(piece) = login {
                    mark_login(piece, marks);
                }
                return;
            }
            // -b FILE USER V, and -nb USER V.
            (b"htpasswd" | b"htdbm", _) => {
                htpasswd(words(), marks);
                return;
            }
            // Its console: +login USER V.
            (b"steamcmd" | b"steamcmd.sh", _) => after(b"+login", 2),
            _ => return,
        };
        let Some(place) = place else { return };
        let piece = plain().nth(place).filter(|piece| !piece.text.starts_with(b"+"));
        if let Some(piece) = piece.filter(|piece| !values::says_nothing(piece.text)) {
            marks.whole(piece);
        }
    }
}

/// The options of htpasswd stand together, and some have a value in the next word.
fn htpasswd<'a: 'p, 'p>(words: impl Iterator<Item = &'p Piece<'a>>, marks: &mut Marks) {
    let (mut is_given, mut is_shown, mut is_value) = (false, false, false);
    let mut plain = Vec::new();
    for piece in words {
        match piece.text {
            [b'-', letters @ ..] => {
                is_given |= letters.contains(&b'b');
                is_shown |= letters.contains(&b'n');
                is_value = matches!(letters.last(), Some(b'C' | b'r' | b'T'));
            }
            _ if std::mem::take(&mut is_value) => {}
            _ if plain.len() < 3 => plain.push(piece),
            _ => break,
        }
    }
    let password = plain.get(if is_shown { 1 } else { 2 }).or(plain.last());
    if let Some(piece) = password.filter(|piece| is_given && !values::is_reference(piece.text)) {
        marks.whole(piece);
    }
}

/// `user/password@database`, and `userid=` before it.
fn is_login(word: &[u8]) -> bool {
    let login = word.strip_prefix(b"userid=").unwrap_or(word);
    let user =
        login.iter().take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$'));
    let user = user.count();
    user > 0 && login.get(user) == Some(&b'/')
}

fn mark_login(piece: &Piece<'_>, marks: &mut Marks) {
    let login = piece.text;
    let end = login.iter().rposition(|byte| *byte == b'@').unwrap_or(login.len());
    if let Some(slash) = login.iter().position(|byte| *byte == b'/') {
        marks.put(piece, slash.saturating_add(1)..end.max(slash));
    }
}
