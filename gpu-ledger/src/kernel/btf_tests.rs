//! A made-up type table, any bytes, and the running kernel against bpftool.

use std::collections::BTreeMap;
use std::io::Write;

use proptest::prelude::*;

use super::*;

/// A BTF blob made of words and names.
#[derive(Default)]
struct Made {
    types: Vec<u8>,
    strings: Vec<u8>,
}

impl Made {
    fn name(&mut self, name: &str) -> u32 {
        if self.strings.is_empty() {
            self.strings.push(0);
        }
        if name.is_empty() {
            return 0;
        }
        let at = u32::try_from(self.strings.len()).unwrap();
        self.strings.extend(name.as_bytes());
        self.strings.push(0);
        at
    }

    fn words(&mut self, words: &[u32]) {
        self.types.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
    }

    /// A structure; members are name, type, bit offset.
    fn structure(&mut self, name: &str, bitfields: bool, members: &[(&str, u32, u32)]) {
        let info =
            u32::from(bitfields) << 31 | kind::STRUCT << 24 | u32::try_from(members.len()).unwrap();
        let name = self.name(name);
        self.words(&[name, info, 64]);
        for (member, type_id, place) in members {
            let member = self.name(member);
            self.words(&[member, *type_id, *place]);
        }
    }

    fn simple(&mut self, name: &str, kind: u32, other: u32, extra: &[u32]) {
        let name = self.name(name);
        self.words(&[name, kind << 24, other]);
        self.words(extra);
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_ne_bytes().to_vec();
        bytes.extend([1, 0]);
        let types = u32::try_from(self.types.len()).unwrap();
        let strings = u32::try_from(self.strings.len()).unwrap();
        for word in [24, 0, types, types, strings] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(&self.types);
        bytes.extend(&self.strings);
        bytes
    }
}

/// 1 int, 2 inner struct without a name, 3 const, 4 typedef of it, 5 array, 6 outer struct.
fn made() -> Made {
    let mut made = Made::default();
    made.simple("int", kind::INT, 4, &[0]);
    made.structure("", false, &[("deep", 1, 32)]);
    made.simple("", kind::CONST, 2, &[]);
    made.simple("inner_t", kind::TYPEDEF, 3, &[]);
    made.simple("", kind::ARRAY, 0, &[1, 1, 7]);
    made.structure(
        "outer",
        true,
        &[("first", 1, 0), ("", 4, 64), ("many", 5, 256), ("bit", 1, 1 << 24 | 3)],
    );
    made
}

#[test]
fn members_are_found_also_inside_members_without_a_name() {
    let btf = Btf::parse(made().bytes()).unwrap();
    let offset = |members: &[&str]| btf.member("outer", members).map(|it| it.offset);
    assert_eq!(offset(&["first"]), Ok(0));
    assert_eq!(offset(&["deep"]), Ok(12));
    assert_eq!(offset(&["renamed", "many"]), Ok(32));
    let many = btf.member("outer", &["many"]).unwrap();
    assert_eq!(btf.array_length(many), Ok(Some(7)));
}

#[test]
fn what_is_missing_is_named() {
    let btf = Btf::parse(made().bytes()).unwrap();
    let error = btf.member("outer", &["new_name", "old_name"]).unwrap_err().to_string();
    assert!(error.contains("outer") && error.contains("new_name` or `old_name"), "{error}");
    assert_eq!(btf.member("nowhere", &["x"]), Err(BtfError::NoType { name: "nowhere".to_owned() }));
    assert!(matches!(btf.member("outer", &["bit"]), Err(BtfError::Bitfield { .. })));
}

#[test]
fn types_that_contain_themselves_end_in_an_error() {
    let mut made = Made::default();
    made.structure("knot", false, &[("", 1, 0), ("", 1, 0)]);
    made.simple("loop", kind::TYPEDEF, 2, &[]);
    made.structure("user", false, &[("", 2, 0)]);
    let btf = Btf::parse(made.bytes()).unwrap();
    assert!(matches!(btf.member("knot", &["x"]), Err(BtfError::Tangled { .. })));
    assert!(matches!(btf.member("user", &["x"]), Err(BtfError::Tangled { .. })));
}

#[test]
fn every_prefix_of_a_good_table_is_an_error_and_no_panic() {
    let bytes = made().bytes();
    let types_end = bytes.len() - made().strings.len();
    for cut in 0..types_end {
        assert!(Btf::parse(bytes[..cut].to_vec()).is_err(), "cut at {cut}");
    }
}

proptest! {
    #[test]
    fn any_bytes_give_a_table_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        drop(Btf::parse(bytes));
    }

    #[test]
    fn a_good_table_with_wrong_bytes_answers_or_says_why(
        changes in proptest::collection::vec((24_usize..300, any::<u8>()), 1..12),
    ) {
        let mut bytes = made().bytes();
        for (at, value) in changes {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = value;
            }
        }
        if let Ok(btf) = Btf::parse(bytes) {
            drop(btf.member("outer", &["deep", "first", "many"]));
            drop(btf.enumerator("outer", "x"));
            drop(btf.tracepoint_arguments("x"));
        }
    }
}

/// Bit offsets of the named direct members of each structure, as bpftool prints them; a name that
/// is used twice is left out.
fn bpftool_members(dump: &str) -> BTreeMap<String, Vec<(String, u32)>> {
    let mut all: BTreeMap<String, Vec<Vec<(String, u32)>>> = BTreeMap::new();
    let mut current: Option<String> = None;
    for line in dump.lines() {
        let quoted = line.split('\'').nth(1).unwrap_or_default();
        if line.starts_with('[') {
            let composite = line.contains("] STRUCT '") || line.contains("] UNION '");
            current = (composite && quoted != "(anon)").then(|| quoted.to_owned());
            if let Some(name) = &current {
                all.entry(name.clone()).or_default().push(Vec::new());
            }
        } else if let Some(name) = &current
            && let Some(place) = line.split("bits_offset=").nth(1)
            && quoted != "(anon)"
            && !line.contains("bitfield_size=")
        {
            let bits = place.split(' ').next().unwrap().parse().unwrap();
            let last = all.get_mut(name).unwrap().last_mut().unwrap();
            last.push((quoted.to_owned(), bits));
        }
    }
    all.into_iter()
        .filter_map(
            |(name, mut found)| if found.len() == 1 { Some((name, found.remove(0))) } else { None },
        )
        .collect()
}

#[test]
#[expect(clippy::disallowed_methods, reason = "bpftool is the other reader")]
fn the_running_kernel_reads_as_bpftool_reads_it() {
    let skip = |reason: &str| {
        let test = "the_running_kernel_reads_as_bpftool_reads_it";
        writeln!(std::io::stderr().lock(), "SKIPPED {test}: {reason}").unwrap();
    };
    let path = "/sys/kernel/btf/vmlinux";
    let Ok(bytes) = std::fs::read(path) else { return skip("this kernel has no BTF") };
    let btf = Btf::parse(bytes).unwrap();
    let tool = std::process::Command::new("bpftool");
    let mut tool = tool;
    let Ok(dump) = tool.args(["btf", "dump", "file", path, "format", "raw"]).output() else {
        return skip("bpftool is not installed");
    };
    let expected = bpftool_members(&String::from_utf8_lossy(&dump.stdout));
    let mut compared = 0;
    for structure in [
        "task_struct",
        "signal_struct",
        "css_set",
        "cgroup",
        "cgroup_root",
        "mm_struct",
        "file",
        "inode",
        "super_block",
        "linux_binprm",
        "cred",
        "kernfs_node",
        "cgroup_subsys_state",
    ] {
        for (member, bits) in &expected[structure] {
            if bits % 8 == 0 {
                let found = btf.member(structure, &[member]).unwrap();
                assert_eq!(found.offset, bits / 8, "{structure}.{member}");
                compared += 1;
            }
        }
    }
    assert!(compared > 300, "only {compared} members compared");
    // A function prototype of bpftool's has the cookie in front.
    assert_eq!(btf.tracepoint_arguments("sched_process_fork"), Ok(2));
    assert_eq!(btf.tracepoint_arguments("sched_process_exec"), Ok(3));
    crate::kernel::offsets::resolve(&btf).unwrap();
}
