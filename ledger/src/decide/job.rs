//! Rule 11: (account, job, kind) is unique. The markers of a job, the reconciler's refund, and replays of both.

use super::draft::Draft;
use super::give_back::left_of;
use super::refund::refund_original;
use super::{JobEntry, Original, State};
use crate::command::{Command, JobKind, JobMarker, Verb};
use crate::credits::Credits;
use crate::entry::{Kind, NoteKind};
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

/// Gives back all that is left of the job's charges, and reverses its open hold.
///
/// A job is charged once, but a hold that expired may have made room for another charge before it was settled late, and
/// a late settle is never refused (rule 7). So each charge and settle of the job that has something left gets a REFUND of
/// its own, the oldest first. Where nothing is left, a NOTE says that the job is refunded: a refund of 0 is none. The first of
/// these is the main entry, and the job's one refund.
pub(super) fn refund_job(draft: &mut Draft) -> Result<(), Refusal> {
    draft.require_job()?;
    let charges = draft.charges_of_job();
    let open = draft.open_hold_of_job().cloned();
    if charges.is_empty() && open.is_none() {
        return Err(match draft.job_entry(JobKind::Charge) {
            Some(_) => Refusal::NotRefundable,
            None => Refusal::NotFound { what: Missing::Job },
        });
    }
    let main = draft.next_seq();
    for original in charges {
        let left = Credits::sum(left_of(original)?)?;
        if left.is_positive() {
            refund_original(draft, original, None)?;
        }
    }
    if let Some(hold) = open {
        if draft.next_seq() == main {
            draft.shown_hold = Some(hold.id);
        }
        draft.end_hold(&hold, HoldStatus::Reversed)?;
    }
    if draft.next_seq() == main {
        let mut pen = draft.note(NoteKind::JobRefunded);
        pen.call = draft.call();
        draft.write(pen)?;
    }
    if let Some(answer) = draft.answer_mut() {
        answer.job_refund = true;
    }
    draft.note_job(JobKind::Refund, main, None);
    draft.end_again()
}

impl<'a> Draft<'a> {
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

    /// The charges and settles of the command's job that are written, the oldest first.
    fn charges_of_job(&self) -> Vec<&'a Original> {
        let job = self.author.and_then(|author| author.command.call.job_id.as_ref());
        let of_job = |original: &&Original| {
            let charges = matches!(original.entry.kind, Kind::Consume | Kind::Settle);
            charges && original.entry.call.job_id.as_ref() == job
        };
        let state: &'a State = self.state;
        state.originals.values().filter(of_job).collect()
    }

    fn open_hold_of_job(&self) -> Option<&Hold> {
        let job = self.author?.command.call.job_id.as_ref();
        self.all_holds().find(|hold| hold.status == HoldStatus::Open && hold.call.job_id.as_ref() == job)
    }

    /// Remembers what of the command's job an entry is.
    pub fn note_job(&mut self, kind: JobKind, seq: Seq, hold: Option<HoldId>) {
        if let Some(job) = self.author.and_then(|author| author.command.call.job_id.clone()) {
            self.jobs.push((job, kind, JobEntry { seq, hold, recorded_at: self.now }));
        }
    }
}
