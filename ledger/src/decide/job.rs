//! Rule 11: (account, job, kind) is unique. The markers of a job, the reconciler's refund, and replays of both.

use super::draft::Draft;
use super::refund::refund_original;
use super::release::reverse;
use super::{JobEntry, Original};
use crate::command::{Command, JobKind, JobMarker, ReverseOutcome, Verb};
use crate::entry::NoteKind;
use crate::hold::HoldStatus;
use crate::ids::{HoldId, Seq};
use crate::refusal::{Missing, Refusal};

/// The entry that already is what the command asks for, whatever its key.
pub(super) fn replayed(draft: &Draft, command: &Command) -> Result<Option<Seq>, Refusal> {
    let first = |kind: JobKind| draft.job_entry(kind).map(|entry| entry.seq);
    Ok(match &command.verb {
        Verb::Charge { .. } | Verb::Hold { .. } => {
            draft.job_entry(JobKind::Charge).filter(|entry| counts(draft, entry)).map(|entry| entry.seq)
        }
        Verb::Mark { marker } => {
            // Asked first: a worker that starts again must not be told that all is well.
            if *marker == JobMarker::Started && first(JobKind::Refund).is_some() {
                return Err(Refusal::JobRefunded);
            }
            first(JobKind::from(*marker))
        }
        Verb::RefundJob => first(JobKind::Refund),
        Verb::Void { grant } => draft.state.voids.get(grant).copied(),
        _ => None,
    })
}

/// A charge counts; a hold while open or settled, be it late.
fn counts(draft: &Draft, entry: &JobEntry) -> bool {
    let Some(hold) = entry.hold.and_then(|id| draft.hold(id)) else { return true };
    matches!(hold.status, HoldStatus::Open | HoldStatus::Settled) || hold.late_settle.is_some()
}

pub(super) fn mark(draft: &mut Draft, marker: JobMarker) -> Result<(), Refusal> {
    draft.require_job()?;
    let mut pen = draft.note(match marker {
        JobMarker::Started => NoteKind::JobStarted,
        JobMarker::Completed => NoteKind::JobCompleted,
        JobMarker::Failed => NoteKind::JobFailed,
    });
    pen.call = draft.call();
    let seq = draft.write(pen)?;
    draft.note_job(JobKind::from(marker), seq, None);
    Ok(())
}

/// Gives back all that is left of the job's charge or settle, or reverses its open hold. Either is the job's one
/// refund.
pub(super) fn refund_job(draft: &mut Draft) -> Result<(), Refusal> {
    draft.require_job()?;
    let charge = draft.job_entry(JobKind::Charge).ok_or(Refusal::NotFound { what: Missing::Job })?;
    let seq = match charge.hold {
        None => refund_entry(draft, charge.seq)?,
        Some(id) => {
            let hold = draft.known_hold(id)?;
            let charged = if hold.status == HoldStatus::Settled { hold.ended_by } else { hold.late_settle };
            match (hold.status, charged) {
                (HoldStatus::Open, _) => {
                    let seq = draft.next_seq();
                    reverse(draft, id, ReverseOutcome::Failed)?;
                    seq
                }
                (_, Some(settle)) => refund_entry(draft, settle)?,
                (_, None) => return Err(Refusal::NotRefundable),
            }
        }
    };
    if let Some(answer) = draft.answer_mut() {
        answer.job_refund = true;
    }
    draft.note_job(JobKind::Refund, seq, None);
    Ok(())
}

fn refund_entry(draft: &mut Draft, seq: Seq) -> Result<Seq, Refusal> {
    let state = draft.state;
    let original: &Original = state.originals.get(&seq).ok_or(Refusal::NotFound { what: Missing::Entry })?;
    refund_original(draft, original, None)
}

impl Draft<'_> {
    fn require_job(&self) -> Result<(), Refusal> {
        if self.author.is_some_and(|author| author.command.call.job_id.is_some()) {
            return Ok(());
        }
        Err(Refusal::Invalid { field: "job_id", reason: "is missing" })
    }

    /// What is known of the command's job.
    fn job_entry(&self, kind: JobKind) -> Option<JobEntry> {
        let job = self.author?.command.call.job_id.clone()?;
        self.state.jobs.get(&(job, kind)).copied()
    }

    /// Remembers what of the command's job an entry is.
    pub fn note_job(&mut self, kind: JobKind, seq: Seq, hold: Option<HoldId>) {
        if let Some(job) = self.author.and_then(|author| author.command.call.job_id.clone()) {
            self.jobs.push((job, kind, JobEntry { seq, hold, recorded_at: self.now }));
        }
    }
}
