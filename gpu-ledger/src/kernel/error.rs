//! What can go wrong in this room, each with the object it is about and what to do.

use super::btf::BtfError;

/// An error of the kernel room.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// The kernel describes its types nowhere.
    #[error(
        "the kernel has no type information at {path} ({cause}): gpu-ledger needs a kernel built \
         with CONFIG_DEBUG_INFO_BTF=y, as those of Debian 11, RHEL 8.6, Ubuntu 20.10 and later are"
    )]
    NoBtf {
        /// Where it was looked for.
        path: String,
        /// What the system said.
        cause: std::io::Error,
    },
    /// The kernel's type information lacks something, or is broken.
    #[error("kernel type information: {0}")]
    Btf(#[from] BtfError),
    /// The ring's size is none the kernel takes.
    #[error("ring of {bytes} bytes: the size must be a power of two and at least {page_bytes}")]
    RingSize {
        /// Asked for.
        bytes: u32,
        /// The page size.
        page_bytes: u64,
    },
    /// The programs and maps could not be created.
    #[error("kernel object: {}", chain(cause))]
    Object {
        /// What the loader said.
        cause: Box<aya::EbpfError>,
    },
    /// One program was refused.
    #[error("kernel program {program} could not be {step}: {}", chain(cause))]
    Program {
        /// Which.
        program: &'static str,
        /// `loaded` or `attached`.
        step: &'static str,
        /// What the kernel said.
        cause: Box<aya::programs::ProgramError>,
    },
    /// The object lacks a program or a map that this program expects: a build mistake.
    #[error("the kernel object has no {name}: rebuild it with `cargo xtask ebpf`")]
    ObjectLacks {
        /// Which.
        name: &'static str,
    },
    /// A map could not be read.
    #[error("kernel map {map}: {}", chain(cause))]
    Map {
        /// Which.
        map: &'static str,
        /// What the kernel said.
        cause: Box<aya::maps::MapError>,
    },
    /// A file of procfs or of the cgroup tree could not be read.
    #[error("{path}: {cause}")]
    File {
        /// Which.
        path: String,
        /// What the system said.
        cause: std::io::Error,
    },
    /// A file's text is not what the kernel documents.
    #[error("{path}: {what}")]
    Text {
        /// Which.
        path: String,
        /// What was expected.
        what: &'static str,
    },
}

/// An error with its causes: a refused program's reason stands at the end of the chain.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let line = cause.to_string();
        if !text.contains(&line) {
            text.push_str(": ");
            text.push_str(&line);
        }
        next = cause.source();
    }
    text
}
