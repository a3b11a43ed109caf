//! The rules of curves on a virtual clock, where every number is exact. The names T1 to T21 and G1 to
//! G12 are those of the specification that these rules were written down in.

mod ablation;
pub(super) mod bench;
mod golden;
mod property;
mod verdicts;
