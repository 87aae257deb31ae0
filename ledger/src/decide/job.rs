//! Rule 11: (account, job, kind) is unique. The markers of a job, the reconciler's refund, and replays of both.

use super::draft::Draft;
use super::refund::refund_original;
use super::release::reverse;
use super::{JobEntry, Original};
use crate::command::{Command, JobKind, JobMarker, ReverseOutcome, Verb};
use crate::entry::NoteKind;
use crate::hold::{Hold, HoldStatus};
use crate::ids::{HoldId, Seq};
use crate::refusal::{Missing, Refusal};

/// The entry that already is what the command asks for, whatever its key.
pub(super) fn replayed(draft: &Draft, command: &Command) -> Result<Option<Seq>, Refusal> {
    let first = |kind: JobKind| draft.job_entry(kind).map(|entry| entry.seq);
    Ok(match &command.verb {
        Verb::Charge { .. } | Verb::Hold { .. } => draft.job_charge().map(|charge| charge.seq),
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
    let seq = match draft.job_charge() {
        None if draft.job_entry(JobKind::Charge).is_some() => return Err(Refusal::NotRefundable),
        None => return Err(Refusal::NotFound { what: Missing::Job }),
        Some(JobEntry { hold: None, seq, .. }) => refund_entry(draft, seq)?,
        Some(JobEntry { hold: Some(id), .. }) => refund_hold(draft, id)?,
    };
    if let Some(answer) = draft.answer_mut() {
        answer.job_refund = true;
    }
    draft.note_job(JobKind::Refund, seq, None);
    Ok(())
}

fn refund_hold(draft: &mut Draft, id: HoldId) -> Result<Seq, Refusal> {
    let hold = draft.known_hold(id)?;
    match hold.late_settle.or(hold.ended_by) {
        Some(settle) => refund_entry(draft, settle),
        None => {
            let seq = draft.next_seq();
            reverse(draft, id, ReverseOutcome::Failed)?;
            Ok(seq)
        }
    }
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

    /// What counts as the charge of the command's job, the newest if several do: a charge, or a hold while open or
    /// settled. A hold that was settled late counts again, though another may have been placed and ended since.
    fn job_charge(&self) -> Option<JobEntry> {
        let job = self.author?.command.call.job_id.as_ref()?;
        let charge = self.job_entry(JobKind::Charge).filter(|entry| entry.hold.is_none());
        let counts = |hold: &&Hold| {
            let settled = hold.status == HoldStatus::Settled || hold.late_settle.is_some();
            hold.call.job_id.as_ref() == Some(job) && (hold.status == HoldStatus::Open || settled)
        };
        let holds = self.all_holds().filter(counts);
        let entries =
            holds.map(|hold| JobEntry { seq: hold.seq, hold: Some(hold.id), recorded_at: hold.placed_at });
        entries.chain(charge).max_by_key(|entry| entry.seq)
    }

    /// Remembers what of the command's job an entry is.
    pub fn note_job(&mut self, kind: JobKind, seq: Seq, hold: Option<HoldId>) {
        if let Some(job) = self.author.and_then(|author| author.command.call.job_id.clone()) {
            self.jobs.push((job, kind, JobEntry { seq, hold, recorded_at: self.now }));
        }
    }
}
