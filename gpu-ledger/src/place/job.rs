//! Batch jobs.

use super::path::{is_number, name, parent};
use super::{Job, Scheduler};

/// The job whose group this part is; its step and task are read off what lies below.
pub(super) fn job_at(above: &[&[u8]], part: &[u8], below: &[&[u8]]) -> Option<Job> {
    slurm_job_at(above, part)
        .map(|id| slurm(id, below))
        .or_else(|| pbs_job_at(above, part))
        .or_else(|| lsf_job_at(above, part))
        .or_else(|| htcondor_slot_at(above, part))
}

/// The id of the Slurm job whose group this part is.
///
/// cgroup/v2: `[NODE_]slurmstepd.scope/job_N`; cgroup/v1: `slurm[_NODE]/uid_U/job_N` (Slurm,
/// doc/html/cgroup_v2.shtml; src/plugins/cgroup/v1/xcgroup.c, `xcgroup_create_hierarchy`). `job_` anywhere else
/// is not Slurm's.
pub(super) fn slurm_job_at<'p>(above: &[&[u8]], part: &'p [u8]) -> Option<&'p [u8]> {
    let id = part.strip_prefix(b"job_").filter(|id| is_number(id))?;
    let (last, above) = above.split_last()?;
    let v2 = *last == b"slurmstepd.scope" || last.ends_with(b"_slurmstepd.scope");
    let v1 = last.strip_prefix(b"uid_").is_some_and(is_number)
        && parent(above).is_some_and(|root| root == b"slurm" || root.starts_with(b"slurm_"));
    (v2 || v1).then_some(id)
}

/// `step_S`, then `user/task_T` (v2) or `task_T` (v1); `slurm` in the place of `user` is the step's daemon.
fn slurm(id: &[u8], below: &[&[u8]]) -> Job {
    let is_step = |word: &&[u8]| {
        !word.is_empty() && word.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'+')
    };
    let step = below.first().and_then(|part| part.strip_prefix(b"step_")).filter(is_step);
    let task = below.get(1).filter(|_| step.is_some());
    let task = if task == Some(&b"user".as_slice()) { below.get(2) } else { task };
    let task = task.and_then(|part| part.strip_prefix(b"task_"));
    let task = task.filter(|task| is_number(task) || *task == b"special");
    let text = |word: &[u8]| name(word).map(Into::into);
    Job {
        scheduler: Scheduler::Slurm,
        id: text(id),
        step: step.and_then(text),
        task: task.and_then(text),
    }
}

/// The groups that the PBS cgroups hook makes its jobs' groups in: now `pbs_jobs.service`, before it
/// `pbs.service`, `pbs.slice` and `pbs` (openpbs, src/hooks/cgroups/pbs_cgroups.PY and its functional test).
const PBS_ROOTS: [&[u8]; 4] = [b"pbs_jobs.service", b"pbs.service", b"pbs.slice", b"pbs"];

/// `ROOT/jobid/ID` of v1, `ROOT/jobs/ID` of v2. The id keeps its server: `123[4].server`.
fn pbs_job_at(above: &[&[u8]], part: &[u8]) -> Option<Job> {
    let (last, above) = above.split_last()?;
    let is_root = matches!(*last, b"jobid" | b"jobs")
        && parent(above).is_some_and(|root| PBS_ROOTS.contains(&root));
    let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || b".-_[]".contains(byte);
    let is_job = part.first().is_some_and(u8::is_ascii_digit) && part.iter().all(is_letter);
    let id = name(part).filter(|_| is_root && is_job)?;
    Some(Job { scheduler: Scheduler::Pbs, id: Some(id.into()), step: None, task: None })
}

/// `lsf/CLUSTER/job.ID...`, with `[INDEX]` behind the id where it is one of an array: IBM's support page "How does LSF
/// calculate max memory usage from cgroup?" has the group's place, and ethz-hpc/collectd, src/jobmetrics.c reads the
/// id: from the first point up to the next one or a bracket. What follows is LSF's own matter. The id is as `bjobs`
/// has it: `123[4]`.
fn lsf_job_at(above: &[&[u8]], part: &[u8]) -> Option<Job> {
    let (_cluster, above) = above.split_last()?;
    let rest = part.strip_prefix(b"job.").filter(|_| parent(above) == Some(b"lsf"))?;
    let digits = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut end = digits(rest);
    if let Some(index) = rest.get(end..).and_then(|index| index.strip_prefix(b"[")) {
        let length = digits(index);
        let is_closed = length > 0 && index.get(length) == Some(&b']');
        end = end.saturating_add(length).saturating_add(2);
        if !is_closed {
            return None;
        }
    }
    let is_over = matches!(rest.get(end), None | Some(b'.'));
    let is_id = rest.first().is_some_and(u8::is_ascii_digit) && is_over;
    let id = rest.get(..end).filter(|_| is_id).and_then(name)?;
    Some(Job { scheduler: Scheduler::Lsf, id: Some(id.into()), step: None, task: None })
}

/// `htcondor/condor_EXECUTE_DIRECTORY_slotN[@HOST]` (HTCondor manual, "cgroup based process tracking"): a slot,
/// and not which job runs in it.
fn htcondor_slot_at(above: &[&[u8]], part: &[u8]) -> Option<Job> {
    let rest = part.strip_prefix(b"condor_").filter(|_| parent(above) == Some(b"htcondor"))?;
    let slot = b"slot".as_slice();
    let has_slot = rest
        .windows(slot.len().saturating_add(1))
        .any(|window| window.strip_prefix(slot).is_some_and(is_number));
    has_slot.then_some(Job { scheduler: Scheduler::HtCondor, id: None, step: None, task: None })
}
