//! `gpu-ledger container-names`.

use std::path::Path;

use clap::Args;

use super::{STATUS_FAILED, STATUS_UNKNOWN, STATUS_USAGE, print};
use crate::naming::{Files, Outcome, answer_to, home_of, serve};

const AFTER_HELP: &str = "Without words one line `RUNTIME ID [OWNER_UID]` is read from stdin and answered on stdout: \
so systemd starts it for gpu-ledger-names.socket. RUNTIME is docker, podman, containerd, cri-o, lxc, nspawn, nomad, \
or any. Names come from the files that the runtimes keep, which root alone can read.\n\
Exit status: 0 named (or asked on stdin, and answered), 1 failed, 2 no runtime knows the container, 64 usage.";

#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(super) struct ContainerNames {
    /// Who runs the container
    #[arg(requires = "id")]
    runtime: Option<String>,
    /// The container's whole id
    id: Option<String>,
    /// The user under whose manager it runs, where that is not the system's
    owner_uid: Option<u32>,
}

impl ContainerNames {
    pub(super) fn run(self) -> anyhow::Result<u8> {
        let files = Files::below(Path::new("/"));
        let (Some(runtime), Some(id)) = (self.runtime, self.id) else {
            serve(std::io::stdin().lock(), std::io::stdout().lock(), &files, home_of)?;
            return Ok(0);
        };
        let owner = self.owner_uid.map(|uid| format!(" {uid}")).unwrap_or_default();
        let (answer, outcome) = answer_to(&format!("{runtime} {id}{owner}"), &files, home_of);
        print(&format!("{answer}\n"))?;
        Ok(match outcome {
            Outcome::Named => 0,
            Outcome::Nameless => STATUS_UNKNOWN,
            Outcome::NoQuestion => STATUS_USAGE,
            Outcome::Failed => STATUS_FAILED,
        })
    }
}
