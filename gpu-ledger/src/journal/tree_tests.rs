//! The tree against the definition in RFC 6962, written down as it stands there, and against known roots.

use proptest::prelude::*;

use super::*;

/// Leaves in memory.
struct Leaves<'a>(&'a [Digest]);

#[derive(Debug, PartialEq)]
struct Refused(TreeError);

impl From<TreeError> for Refused {
    fn from(error: TreeError) -> Self {
        Self(error)
    }
}

impl Subtrees for Leaves<'_> {
    type Error = Refused;

    fn hash_of(&mut self, subtree: Subtree) -> Result<Digest, Refused> {
        let (begin, end) = (at(subtree.begin()), at(subtree.end()));
        Ok(defined(&self.0[begin..end]))
    }
}

/// MTH of RFC 6962, 2.1, over leaves that are hashed already.
fn defined(leaves: &[Digest]) -> Digest {
    match leaves {
        [] => Digest(Sha256::digest([]).into()),
        [one] => *one,
        _ => {
            let (left, right) = leaves.split_at(below(leaves.len()));
            node(defined(left), defined(right))
        }
    }
}

/// PATH of RFC 6962, 2.1.1.
fn defined_path(leaf: usize, leaves: &[Digest]) -> Vec<Digest> {
    if leaves.len() == 1 {
        return Vec::new();
    }
    let k = below(leaves.len());
    let (left, right) = leaves.split_at(k);
    let (mut path, beside) = if leaf < k {
        (defined_path(leaf, left), right)
    } else {
        (defined_path(leaf - k, right), left)
    };
    path.push(defined(beside));
    path
}

/// SUBPROOF of RFC 6962, 2.1.2.
fn defined_consistency(from: usize, leaves: &[Digest], is_whole: bool) -> Vec<Digest> {
    if from == leaves.len() {
        return if is_whole { Vec::new() } else { vec![defined(leaves)] };
    }
    let k = below(leaves.len());
    let (left, right) = leaves.split_at(k);
    let (mut path, beside) = if from <= k {
        (defined_consistency(from, left, is_whole), right)
    } else {
        (defined_consistency(from - k, right, false), left)
    };
    path.push(defined(beside));
    path
}

fn at(leaf: u64) -> usize {
    usize::try_from(leaf).unwrap()
}

fn number(at: usize) -> u64 {
    u64::try_from(at).unwrap()
}

/// The largest power of two below it.
fn below(n: usize) -> usize {
    let mut k = 1;
    while k * 2 < n {
        k *= 2;
    }
    k
}

fn some(count: u64) -> Vec<Digest> {
    (0..count).map(|number| leaf(&number.to_be_bytes())).collect()
}

fn hex(text: &str) -> Vec<u8> {
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
        .collect()
}

/// The leaves that implementations of RFC 6962 are commonly tested with, and the roots of their trees
/// (transparency-dev/merkle, testonly/constants.go).
const KNOWN: [(&str, &str); 8] = [
    ("", "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"),
    ("00", "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125"),
    ("10", "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77"),
    ("2021", "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7"),
    ("3031", "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4"),
    ("40414243", "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef"),
    ("5051525354555657", "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c"),
    (
        "606162636465666768696a6b6c6d6e6f",
        "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
    ),
];

#[test]
fn roots_are_those_that_other_implementations_know() {
    let mut tree = Frontier::default();
    let none = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    assert_eq!(tree.root().unwrap().to_string(), none);
    for (bytes, root) in KNOWN {
        tree.append(leaf(&hex(bytes)));
        assert_eq!(tree.root().unwrap().to_string(), root);
    }
    assert_eq!(tree.end(), 8);
}

#[test]
fn a_known_proof_of_the_sixth_leaf() {
    let leaves: Vec<Digest> = KNOWN.iter().map(|(bytes, _)| leaf(&hex(bytes))).collect();
    let path = inclusion(&mut Leaves(&leaves), 5, 8).unwrap();
    // transparency-dev/merkle, proof/verify_test.go, of leaf 5 (there 6th) in the tree of 8.
    let known = [
        "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
        "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    ];
    assert_eq!(path.iter().map(Digest::to_string).collect::<Vec<_>>(), known);
}

#[test]
fn every_proof_of_a_small_tree_is_the_defined_one_and_proves() {
    let leaves = some(70);
    for size in 1..=leaves.len() {
        let (tree, root) = (&leaves[..size], (number(size), defined(&leaves[..size])));
        for (at, leaf) in tree.iter().enumerate() {
            let path = inclusion(&mut Leaves(tree), number(at), number(size)).unwrap();
            assert_eq!(path, defined_path(at, tree), "{at} of {size}");
            check_inclusion((number(at), *leaf), root, &path).unwrap();
        }
        for from in 0..=size {
            let path = consistency(&mut Leaves(tree), number(from), number(size)).unwrap();
            if from > 0 {
                assert_eq!(path, defined_consistency(from, tree, true), "{from} to {size}");
            }
            check_consistency((number(from), defined(&leaves[..from])), root, &path).unwrap();
        }
    }
}

#[test]
fn what_is_not_in_a_tree_has_no_proof() {
    let leaves = some(5);
    let outside = |leaf, size| Refused(TreeError::Outside { leaf, size });
    assert_eq!(inclusion(&mut Leaves(&leaves), 5, 5), Err(outside(5, 5)));
    assert_eq!(inclusion(&mut Leaves(&leaves), 0, 0), Err(outside(0, 0)));
    assert_eq!(consistency(&mut Leaves(&leaves), 6, 5), Err(outside(6, 5)));
    let root = defined(&leaves);
    assert!(check_inclusion((5, leaves[4]), (5, root), &[]).is_err());
    assert!(check_inclusion((0, root), (0, root), &[]).is_err());
    assert!(check_consistency((5, root), (4, root), &[]).is_err());
    // A leaf is no node: else the two halves would pass for one leaf.
    assert_ne!(leaf(&[leaves[0].0, leaves[1].0].concat()), node(leaves[0], leaves[1]));
    // The empty tree has one root.
    assert!(check_consistency((0, root), (5, root), &[]).is_err());
}

#[test]
fn a_tree_may_end_at_the_last_number() {
    let far = u64::MAX - 2;
    assert_eq!(subtrees(far, u64::MAX).count(), 2);
    let mut frontier = Frontier::starting_at(far);
    frontier.append_range(u64::MAX, &some(2)).unwrap();
    assert_eq!((frontier.end(), frontier.root()), (u64::MAX, None));
    assert!(subtrees(1, u64::MAX).count() <= HASHES_MAX);
}

/// Of a proof: one bit turned, one hash left out, doubled or exchanged with the next.
fn spoiled(path: &[Digest], at: usize, how: u8) -> Vec<Digest> {
    let mut path = path.to_vec();
    let here = at.checked_rem(path.len()).unwrap_or(0);
    match how {
        _ if path.is_empty() => path.push(Digest::NONE),
        0 => path[here].0[at % 32] ^= 1 << (at % 8),
        1 => drop(path.remove(here)),
        2 => path.insert(here, path[here]),
        3 if here + 1 < path.len() => path.swap(here, here + 1),
        _ => path.push(Digest::NONE),
    }
    path
}

proptest! {
    #[test]
    fn ranges_make_the_root_whatever_they_are_split_into(
        (size, a, b) in (1_u64..300).prop_flat_map(|size| (Just(size), 0..=size, 0..=size)),
        level in 0_u32..6,
    ) {
        let leaves = some(size);
        let (first, last) = (a.min(b), a.max(b));
        let mut tree = Leaves(&leaves);
        let left: Vec<Digest> = range(&mut tree, 0, first).unwrap().hashes().collect();
        let right: Vec<Digest> = range(&mut tree, last, size).unwrap().hashes().collect();
        let mut whole = Frontier::of(0, first, &left).unwrap();
        for leaf in &leaves[at(first)..at(last)] {
            whole.append(*leaf);
        }
        whole.append_range(size, &right).unwrap();
        prop_assert_eq!(whole.root(), Some(defined(&leaves)));

        // Grown leaf by leaf from anywhere, it is the compact range of its leaves.
        let mut grown = Frontier::starting_at(first);
        leaves[at(first)..].iter().for_each(|leaf| grown.append(*leaf));
        prop_assert_eq!(&grown, &range(&mut tree, first, size).unwrap());

        // Whole subtrees first, as a journal that keeps their roots does.
        let mut kept = Frontier::default();
        let run = 1_u64 << level;
        for index in 0..size / run {
            kept.append_subtree(level, tree.hash_of(Subtree { level, index }).unwrap()).unwrap();
        }
        for leaf in &leaves[at(size / run * run)..] {
            kept.append(*leaf);
        }
        prop_assert_eq!(kept, range(&mut tree, 0, size).unwrap());
    }

    #[test]
    fn a_spoiled_proof_of_a_leaf_proves_nothing(
        (size, index) in (1_u64..300).prop_flat_map(|size| (Just(size), 0..size)),
        place in any::<usize>(), how in 0_u8..5, other in 0_u64..300,
    ) {
        let leaves = some(size);
        let root = defined(&leaves);
        let hash = leaves[at(index)];
        let path = inclusion(&mut Leaves(&leaves), index, size).unwrap();
        prop_assert!(check_inclusion((index, hash), (size, root), &path).is_ok());
        let wrong = spoiled(&path, place, how);
        prop_assert!(wrong == path || check_inclusion((index, hash), (size, root), &wrong).is_err());
        prop_assert!(check_inclusion((index, root), (size, root), &path).is_err() || size == 1);
        prop_assert!(check_inclusion((index, hash), (size, Digest::NONE), &path).is_err());
        prop_assert!(other == index || check_inclusion((other, hash), (size, root), &path).is_err());
    }

    #[test]
    fn a_spoiled_proof_of_growth_proves_nothing(
        (to, from) in (1_u64..300).prop_flat_map(|to| (Just(to), 1..=to)),
        place in any::<usize>(), how in 0_u8..5,
    ) {
        let leaves = some(to);
        let (old, new) = (defined(&leaves[..at(from)]), defined(&leaves));
        let path = consistency(&mut Leaves(&leaves), from, to).unwrap();
        prop_assert!(check_consistency((from, old), (to, new), &path).is_ok());
        let wrong = spoiled(&path, place, how);
        prop_assert!(wrong == path || check_consistency((from, old), (to, new), &wrong).is_err());
        prop_assert!(check_consistency((from, Digest::NONE), (to, new), &path).is_err());
        prop_assert!(check_consistency((from, old), (to, Digest::NONE), &path).is_err());

        // Of a log that was rewritten before its old end, nothing leads to the new one.
        let mut rewritten = leaves;
        rewritten[place % at(from)] = Digest::NONE;
        let now = defined(&rewritten);
        let path = consistency(&mut Leaves(&rewritten), from, to).unwrap();
        prop_assert!(check_consistency((from, old), (to, now), &path).is_err());
    }

    #[test]
    fn any_hashes_are_a_range_or_are_refused(
        begin in any::<u64>(), end in any::<u64>(), count in 0_u64..70, level in any::<u32>(),
    ) {
        let hashes = some(count);
        let frontier = Frontier::of(begin, end, &hashes);
        let fits = begin <= end && subtrees(begin, end).count() == hashes.len();
        prop_assert_eq!(frontier.is_ok(), fits);
        let mut next = Frontier::starting_at(begin);
        let fits = level < 64 && begin % (1 << level.min(63)) == 0;
        prop_assert_eq!(next.append_subtree(level, Digest::NONE).is_ok(), fits);
    }
}
