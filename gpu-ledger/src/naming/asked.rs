//! Which container is asked about, and the line by which the helper is asked.

use std::fmt;
use std::sync::Arc;

use crate::attribution::ContainerNames;
use crate::place::{Container, Place, Runtime};

/// Bytes of a question's line without its end: two words and a uid.
pub const QUESTION_BYTES_MAX: usize = 192;
/// Bytes of an id: Docker's, Podman's and the kubelet's have 64, those that users choose at most 76
/// (containerd 2.0, `pkg/identifiers/validate.go`) or 128.
const ID_BYTES_MAX: usize = 128;
/// The word for a runtime that a path does not tell.
const ANY: &str = "any";

/// A container that somebody wants named.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Question {
    runtime: Option<Runtime>,
    id: Arc<str>,
    owner: Option<u32>,
}

/// Why a line is no question.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum QuestionError {
    /// Not two or three words.
    #[error("ask with one line `RUNTIME ID [OWNER_UID]`")]
    Words,
    /// A runtime that nobody knows.
    #[error("no such runtime: name docker, podman, containerd, cri-o, lxc, nspawn, nomad, or any")]
    Runtime,
    /// No id.
    #[error(
        "no container id: up to {ID_BYTES_MAX} letters, digits, `_`, `-` and `.`, the first no `.` or `-`"
    )]
    Id,
    /// No uid.
    #[error("no user id: a number below 4294967295")]
    Owner,
    /// Longer than any question.
    #[error("a question has at most {QUESTION_BYTES_MAX} bytes")]
    TooLong,
}

impl Question {
    /// About the container of a place. `None` where there is none, its group bears no id, or bears the only name
    /// that there is.
    #[must_use]
    pub fn about(place: &Place) -> Option<Self> {
        let Container { runtime, id } = place.container.as_ref()?;
        if place.within.is_some() || !is_id(id) || named_by_its_group(*runtime, id).is_some() {
            return None;
        }
        // Below a user's manager that user makes the groups; in a session root alone does.
        let is_users = place.unit.as_deref().is_some_and(|unit| unit.starts_with("user@"));
        let owner = place.owner_uid.filter(|_| is_users);
        Some(Self { runtime: *runtime, id: Arc::clone(id), owner })
    }

    /// About a container that no runtime has: to see whether anybody answers.
    #[must_use]
    pub fn about_nobody() -> Self {
        Self { runtime: None, id: "0".repeat(64).into(), owner: None }
    }

    /// From a line without its end.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(line: &str) -> Result<Self, QuestionError> {
        if line.len() > QUESTION_BYTES_MAX {
            return Err(QuestionError::TooLong);
        }
        let mut words = line.split_ascii_whitespace();
        let (Some(runtime), Some(id)) = (words.next(), words.next()) else {
            return Err(QuestionError::Words);
        };
        let (owner, none) = (words.next(), words.next());
        if none.is_some() {
            return Err(QuestionError::Words);
        }
        let known = Runtime::ALL.into_iter().find(|known| known.as_str() == runtime);
        if known.is_none() && runtime != ANY {
            return Err(QuestionError::Runtime);
        }
        if !is_id(id) {
            return Err(QuestionError::Id);
        }
        let owner = owner.map(str::parse).transpose().map_err(|_| QuestionError::Owner)?;
        // What the kernel means by nobody at all.
        if owner == Some(u32::MAX) {
            return Err(QuestionError::Owner);
        }
        Ok(Self { runtime: known, id: id.into(), owner })
    }

    /// Who runs it; `None` where that is not known.
    #[must_use]
    pub const fn runtime(&self) -> Option<Runtime> {
        self.runtime
    }

    /// Its id, which is safe as the name of a file.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Whose it is, where it is not the system's.
    #[must_use]
    pub fn owner(&self) -> Option<u32> {
        self.owner.filter(|uid| *uid != 0)
    }

    /// Whether the id is one that a program made up, and not a name.
    #[must_use]
    pub fn has_random_id(&self) -> bool {
        self.id.len() == 64 && self.id.bytes().all(|byte| byte.is_ascii_hexdigit())
    }
}

/// The line without its end.
impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.runtime.map_or(ANY, Runtime::as_str), self.id)?;
        match self.owner {
            Some(owner) => write!(f, " {owner}"),
            None => Ok(()),
        }
    }
}

/// What a container is called whose runtime has no other names than the one that its group bears.
#[must_use]
pub(super) fn named_by_its_group(
    runtime: Option<Runtime>,
    id: &Arc<str>,
) -> Option<ContainerNames> {
    match runtime? {
        Runtime::Lxc | Runtime::Nspawn | Runtime::Nomad => {
            Some(ContainerNames { name: Some(Arc::clone(id)), ..ContainerNames::default() })
        }
        Runtime::Docker | Runtime::Podman | Runtime::Containerd | Runtime::CriO => None,
    }
}

/// Nothing that leads anywhere as part of a path.
pub(super) fn is_id(id: &str) -> bool {
    let is_of_ids = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=ID_BYTES_MAX).contains(&id.len())
        && id.bytes().all(is_of_ids)
        && !id.starts_with(['.', '-'])
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "9a31de5509752cdfd67ecce37e15d1b8d84a1979b09d6cf56cf84615c8d585de";

    #[test]
    fn a_question_is_read_as_it_is_written() {
        for line in [format!("docker {ID}"), format!("any {ID} 1000"), "lxc web-1.a_b".to_owned()] {
            assert_eq!(Question::parse(&line).unwrap().to_string(), line);
        }
        let asked = Question::parse(&format!("  cri-o   {ID}\t0 ")).unwrap();
        assert_eq!((asked.runtime(), asked.owner()), (Some(Runtime::CriO), None));
        assert!(asked.has_random_id());
        for runtime in Runtime::ALL {
            let asked = Question::parse(&format!("{} {ID}", runtime.as_str())).unwrap();
            assert_eq!(asked.runtime(), Some(runtime));
        }
    }

    #[test]
    fn what_is_no_question_is_told_why() {
        let long = "a".repeat(ID_BYTES_MAX + 1);
        for (line, error) in [
            ("", QuestionError::Words),
            ("docker", QuestionError::Words),
            ("docker a 1 2", QuestionError::Words),
            ("rkt abc", QuestionError::Runtime),
            ("Docker abc", QuestionError::Runtime),
            ("docker ..", QuestionError::Id),
            ("docker ../../etc/shadow", QuestionError::Id),
            ("docker a/b", QuestionError::Id),
            ("docker a\0b", QuestionError::Id),
            ("docker .hidden", QuestionError::Id),
            ("docker -x", QuestionError::Id),
            ("docker é", QuestionError::Id),
            (&format!("docker {long}"), QuestionError::Id),
            ("docker abc me", QuestionError::Owner),
            ("docker abc -1", QuestionError::Owner),
            ("docker abc 4294967295", QuestionError::Owner),
            (&"x".repeat(QUESTION_BYTES_MAX + 1), QuestionError::TooLong),
        ] {
            assert_eq!(Question::parse(line).err(), Some(error), "{line}");
        }
    }

    #[test]
    fn a_group_that_bears_no_id_is_not_asked_about() {
        let about = |id: &str| {
            let container = Some(Container { runtime: Some(Runtime::Docker), id: id.into() });
            Question::about(&Place { container, ..Place::default() })
        };
        assert!(about(ID).is_some() && Question::about(&Place::default()).is_none());
        for id in ["", "..", "a b", "a\nb", "a/b"] {
            assert!(about(id).is_none(), "{id:?}");
        }
    }

    /// Else anybody's group with the id of the system's container would go by its name.
    #[test]
    fn a_container_below_a_users_manager_is_that_users_and_one_of_a_session_the_systems() {
        let asked = |above: &str| {
            let path = format!("/user.slice/user-1000.slice/{above}/libpod-{ID}.scope");
            Question::about(&Place::of([path.as_bytes()])).unwrap()
        };
        assert_eq!(asked("user@1000.service/user.slice").to_string(), format!("podman {ID} 1000"));
        assert_eq!(asked("session-3.scope").to_string(), format!("podman {ID}"));
        assert_ne!(asked("session-3.scope"), asked("user@1000.service"));
        let lxc = Place::of([b"/lxc.payload.web".as_slice()]);
        assert!(lxc.container.is_some() && Question::about(&lxc).is_none());
    }
}
