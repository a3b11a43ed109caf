//! `gpu-ledger container-names`.

use std::io::IsTerminal as _;
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use clap::Args;

use super::{STATUS_FAILED, STATUS_UNKNOWN, STATUS_USAGE, Usage, print};
use crate::naming::{Files, Outcome, answer_to, home_of, serve};
use crate::output::stdout;

const AFTER_HELP: &str = "Without words one line `RUNTIME ID [OWNER_UID]` is read from stdin and answered on stdout: \
so systemd starts it for gpu-ledger-names.socket. RUNTIME is docker, podman, containerd, cri-o, lxc, nspawn, nomad, \
or any. Names come from the files that the runtimes keep, which root alone can read. There is an answer within two \
seconds, or an error.\n\
Exit status: 0 named (or asked on stdin, and answered), 1 failed, or no answer in time, 2 no runtime knows the \
container, 64 usage, or what was asked on stdin is no question.";

/// How long a question may take to come, and its answer to be found, each: whoever asks waits half a second, and the
/// unit's own limit is for a helper that cannot end by itself.
const PATIENCE: Duration = Duration::from_secs(1);
/// Digits of an id that Docker, Podman and CRI-O make up.
const ID_DIGITS: usize = 64;

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
        let (Some(runtime), Some(id)) = (self.runtime, self.id) else { return answer_stdin() };
        let owner = self.owner_uid.map(|uid| format!(" {uid}")).unwrap_or_default();
        let question = format!("{runtime} {id}{owner}");
        let (answer, outcome) =
            within(PATIENCE, "the runtimes' files cannot be read", move || {
                answer_to(&question, &Files::below(Path::new("/")), home_of)
            })?;
        print(&format!("{answer}\n"))?;
        let is_short = id.len() < ID_DIGITS && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        Ok(match outcome {
            Outcome::Named => 0,
            Outcome::Nameless if is_short => {
                let what = format!(
                    "no container has {id} as its whole id; the short form is not looked for: give all \
                     {ID_DIGITS} digits, as in docker inspect --format '{{{{.Id}}}}' {id}"
                );
                return Err(Usage(what).into());
            }
            Outcome::Nameless => STATUS_UNKNOWN,
            Outcome::NoQuestion => STATUS_USAGE,
            Outcome::Failed => STATUS_FAILED,
        })
    }
}

/// One question from stdin. Whoever runs it by hand is told what to type.
fn answer_stdin() -> anyhow::Result<u8> {
    if std::io::stdin().is_terminal() {
        let what = "name a container: gpu-ledger container-names RUNTIME ID [OWNER_UID], as in \
                    `gpu-ledger container-names docker $(docker inspect --format '{{.Id}}' web)`";
        return Err(Usage(what.to_owned()).into());
    }
    let no_line = "no whole line `RUNTIME ID [OWNER_UID]` came on stdin, or the runtimes' files cannot be read";
    let outcome = within(PATIENCE * 2, no_line, || {
        let files = Files::below(Path::new("/"));
        serve(std::io::stdin().lock(), stdout()?, &files, home_of)
    })??;
    Ok(match outcome {
        Outcome::Named | Outcome::Nameless => 0,
        Outcome::NoQuestion => STATUS_USAGE,
        Outcome::Failed => STATUS_FAILED,
    })
}

/// What a thread of its own finds out in time. Left behind, it ends with this process.
fn within<T: Send + 'static>(
    patience: Duration,
    why_not: &str,
    find: impl FnOnce() -> T + Send + 'static,
) -> anyhow::Result<T> {
    let (sender, found) = mpsc::sync_channel(1);
    std::thread::Builder::new().name("names".to_owned()).spawn(move || {
        // Nobody waits any more where it took too long.
        let _ = sender.send(find());
    })?;
    found.recv_timeout(patience).map_err(|error| match error {
        RecvTimeoutError::Timeout => anyhow::anyhow!("no answer in {patience:?}: {why_not}"),
        RecvTimeoutError::Disconnected => anyhow::anyhow!("no answer: the search broke off"),
    })
}
