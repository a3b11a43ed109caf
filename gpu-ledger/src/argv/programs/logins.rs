//! `user:password` behind options that most programs have for a user.
//!
//! What runs a program as somebody else takes `user:group` there, and some have another meaning for `-u`.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use super::{Context, has};
use crate::argv::marks::{Marks, Piece};
use crate::argv::names;
use crate::argv::urls;
use crate::argv::values;

/// Programs that take `user:group`, wherever among the words before.
const OF_GROUPS: &str = "docker docker-compose podman podman-compose podman-remote nerdctl kubectl oc k3s crictl ctr runc crun \
    buildah apptainer singularity enroot lxc incus systemd-run unshare nsenter setpriv chroot chown chgrp install su sudo \
    runuser gosu su-exec start-stop-daemon uwsgi bwrap firejail";
/// Programs with a `-u` that is no user: update, unique, unified.
const OF_OTHERS: &str =
    "rsync rclone git scp cp mv tar zip unzip diff sort uniq mc mcli date perl vim";
/// What stands before a colon and is neither a user nor a scheme.
const OF_THINGS: &str = "urn data sha256 sha512 md5 localhost";
/// Options of one dash that begin with `-u` and have their value behind a colon: `-user:NAME`.
const WORDS: &str = "user username usr unit url uri uid update use";

/// Both: asked for with each word.
static OTHERS: LazyLock<BTreeSet<&'static [u8]>> = LazyLock::new(|| {
    let lists = [OF_GROUPS, OF_OTHERS].into_iter();
    lists.flat_map(str::split_ascii_whitespace).map(str::as_bytes).collect()
});

/// Whether a word is a program with a user or a `-u` of its own.
pub(super) fn is_of_groups(name: &[u8]) -> bool {
    OTHERS.contains(name)
}

impl<'a> Context<'a> {
    /// Marks the password behind such an option; whether the next word was its value.
    pub(in crate::argv) fn login(
        &self,
        piece: &Piece<'a>,
        next: Option<&Piece<'a>>,
        in_text: bool,
        marks: &mut Marks,
    ) -> bool {
        if self.has_groups {
            return false;
        }
        let text = piece.text;
        if let [b'-', b'u' | b'U'] = text {
            // Python's own: what follows is its script.
            let before = self.before.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
            if before.starts_with(b"python") {
                return false;
            }
            return next.is_some_and(|next| password(next, in_text, marks));
        }
        if let [b'-', b'u', login @ ..] = text
            && login.first().is_some_and(u8::is_ascii_alphanumeric)
        {
            let name = text.iter().skip(1).take_while(|byte| **byte != b':').copied();
            if !has(WORDS, &name.collect::<Vec<u8>>()) {
                password(&piece.part(&(2..text.len())), in_text, marks);
            }
            return false;
        }
        let Some(option) = text.strip_prefix(b"--") else { return false };
        let end = option.iter().position(|byte| *byte == b'=').unwrap_or(option.len());
        if !names::is_user(option.get(..end).unwrap_or_default()) {
            return false;
        }
        if end == option.len() {
            return next.is_some_and(|next| password(next, in_text, marks));
        }
        let from = end.saturating_add(3);
        password(&piece.part(&(from..text.len())), in_text, marks);
        false
    }
}

/// Marks what is behind the colon, where it is a password and no group, port, tag or number of a thing.
fn password(piece: &Piece<'_>, in_text: bool, marks: &mut Marks) -> bool {
    let inner = values::unquoted(piece.text);
    let login = piece.part(&inner);
    let Some(colon) = login.text.iter().position(|byte| *byte == b':') else { return false };
    let (user, password) = login.text.split_at(colon);
    let password = password.get(1..).unwrap_or_default();
    let is_other = urls::is_scheme(user)
        || has(OF_THINGS, user)
        || values::is_uuid(password)
        || in_text && values::is_reference(password)
        || values::says_nothing(password);
    let is_login = names::is_further_pair(login.text) && !is_other;
    if is_login {
        marks.put(&login, colon.saturating_add(1)..login.text.len());
    }
    is_login
}
