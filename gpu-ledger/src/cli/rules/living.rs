//! A living process, as attribution would see it.

use std::path::Path;

use crate::attribution::{Attributor, ContainerNames, Process, Users};
use crate::clock::Clock;
use crate::host::ANCESTORS_MAX;
use crate::identity::{
    CgroupMounts, IdentityError, ImageContent, Procfs, Program, ProgramKind, SeenProcess, User,
};
use crate::naming::{Files, Question, SOCKET_DEFAULT, ask, home_of};
use crate::place::Place;
use crate::unit::Pid;

const PROCFS: &str = "/proc";

/// The process of this pid; `None` where there is none. Its ancestors are those that it has now.
pub(super) fn living(
    pid: Pid,
    attributor: &Attributor,
    clock: &Clock,
) -> Result<Option<Process>, IdentityError> {
    let procfs = Procfs::new(PROCFS.into());
    let mounts = CgroupMounts::read(Path::new(PROCFS), Path::new("/"))?;
    let Some(seen) = procfs.read(pid, &mounts)? else { return Ok(None) };
    let mut ancestors = Vec::new();
    let mut parent = seen.parent;
    while parent.0 != 0 && ancestors.len() < ANCESTORS_MAX {
        // One that cannot be read, or is gone meanwhile, is not known, and neither is who is above it.
        let above = procfs.read(parent, &mounts).ok().flatten();
        parent = above.as_ref().map_or(Pid(0), |above| above.parent);
        ancestors.push(above);
    }
    Ok(Some(described(&seen, &ancestors, attributor, clock)))
}

fn described(
    seen: &SeenProcess,
    above: &[Option<SeenProcess>],
    attributor: &Attributor,
    clock: &Clock,
) -> Process {
    let own = program_of(seen);
    let ancestors: Vec<Option<Program>> =
        above.iter().map(|one| one.as_ref().and_then(program_of)).collect();
    // A worker goes by what its parent runs.
    let is_worker = |program: &Option<Program>| {
        program.as_ref().is_some_and(|one| one.kind() == ProgramKind::ParentsWorker)
    };
    let named = ancestors.iter().find(|one| !is_worker(one)).and_then(Option::as_ref);
    let program = if is_worker(&own) { named.cloned().or(own) } else { own };
    // What is stored of arguments is what rules see.
    let of_ancestors = above.iter().flatten().zip(ancestors.iter());
    let model = attributor.model(program.as_ref(), &seen.argv).or_else(|| {
        let mut models = of_ancestors.map(|(one, name)| attributor.model(name.as_ref(), &one.argv));
        models.find_map(|model| model)
    });
    let cgroups: Vec<_> = seen.cgroups.iter().map(|(_, path)| path.clone()).collect();
    let place = Place::of(cgroups.iter().map(AsRef::as_ref));
    Process {
        program,
        model,
        exe: attributor.file(&seen.exe_path).into_owned().into(),
        argv: attributor.words(&seen.argv),
        user: seen.user,
        users: users_of(seen.user),
        names: names_of(&place, clock).map(ContainerNames::safe),
        place,
        cgroups,
        ancestors,
        ..Process::default()
    }
}

/// What the runtime calls the container; whoever is not root asks the helper. What is not to be had is logged.
fn names_of(place: &Place, clock: &Clock) -> Option<ContainerNames> {
    let question = Question::about(place)?;
    let told = |what: &dyn std::fmt::Display| tracing::warn!("no names of the container: {what}");
    if rustix::process::geteuid().is_root() {
        let names = Files::below(Path::new("/")).names_of(&question, home_of);
        names.inspect_err(|error| told(error)).ok().flatten()
    } else {
        let names = ask(Path::new(SOCKET_DEFAULT), &question, clock);
        names.inspect_err(|error| told(error)).ok().flatten()
    }
}

fn program_of(seen: &SeenProcess) -> Option<Program> {
    let (argv, filename) = (seen.argv.clone(), seen.exe_path.clone());
    let program = Program::of(&ImageContent { argv, filename, exe: seen.exe });
    // Whose executable may not be read still has a name in the kernel.
    program.or_else(|| (!seen.comm.is_empty()).then(|| Program::named(&seen.comm)))
}

/// What this host calls them.
pub(super) fn users_of(user: User) -> Users {
    Users::called(user, |uid| match nix::unistd::User::from_uid(uid.into()) {
        Ok(Some(user)) => Some(user.name.into()),
        Ok(None) | Err(_) => None,
    })
}

/// The number of a user of this name.
pub(super) fn uid_of(name: &str) -> Option<u32> {
    match nix::unistd::User::from_name(name) {
        Ok(Some(user)) => Some(user.uid.as_raw()),
        Ok(None) | Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_described_as_it_is() {
        let (clock, attributor) = (Clock::system(), Attributor::default());
        let own = living(Pid(std::process::id()), &attributor, &clock).unwrap().unwrap();
        let program = std::env::current_exe().unwrap();
        assert_eq!(own.exe, program.as_os_str().as_encoded_bytes());
        let name = own.program.as_ref().unwrap().to_string();
        assert_eq!(Some(name.as_str()), program.file_name().unwrap().to_str());
        assert_eq!(own.user.uid, Some(rustix::process::getuid().as_raw()));
        let argv: Vec<Vec<u8>> =
            std::env::args_os().map(|word| word.as_encoded_bytes().to_vec()).collect();
        assert_eq!(own.argv, Some(argv));
        assert!(!own.ancestors.is_empty());
        assert!(living(Pid(1 << 23), &attributor, &clock).unwrap().is_none());
    }
}
