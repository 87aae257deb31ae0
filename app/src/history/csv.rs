//! The history as CSV: the screen's own query, complete, streamed page by page.
//!
//! RFC 4180 to the letter: CRLF, the same number of cells in every record, quotes where they are needed. Text
//! that a spreadsheet could run as a formula gets an apostrophe in front; numbers and times come from typed
//! values and are never touched. What fell due but is not written yet comes first, without a number, so that the
//! file says what the balance says. The last record has the number of rows and the sums, so that a cut file shows.

use axum::Extension;
use axum::body::Body;
use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::http::{HeaderValue, Uri, header};
use axum::response::{IntoResponse, Response};
use backoffice::access::{User, rights};
use chrono::{DateTime, SecondsFormat, Utc};
use chrono_tz::Tz;
use futures_util::stream::{self, StreamExt};
use ledger::entry::Entry;
use ledger::ids::AccountId;
use ledger::service::{EntryQuery, Page, PageRequest};
use ledger::{Credits, History, Ledger};
use tower_sessions::Session;

use super::place::{Naming, Place};
use super::query;
use crate::components::paid::paid_from;
use crate::context::AppContext;
use crate::error::AppError;
use crate::session::{login_path, user_of};

/// Rows read, written and forgotten at a time.
const ROWS: u32 = 200;

const COLUMNS: [&str; 19] = [
    "seq",
    "kind",
    "effective_at",
    "occurred_at",
    "recorded_at",
    "amount",
    "moved",
    "available_after",
    "held_after",
    "balance_after",
    "grants",
    "request_ref",
    "model",
    "member",
    "key_ref",
    "job_id",
    "hold",
    "reverses",
    "reason",
];

/// `GET /history.csv`: of the signed-in person's own account.
pub async fn history_csv(Extension(context): Extension<AppContext>, session: Session, uri: Uri) -> Response {
    answer(&context, &session, &uri, |user| Place::own(user, uri.query().unwrap_or_default())).await
}

/// `GET /accounts/{id}/history.csv`: of any account that the person may read.
pub async fn account_history_csv(
    Extension(context): Extension<AppContext>,
    session: Session,
    id: Result<Path<String>, PathRejection>,
    uri: Uri,
) -> Response {
    let place = |_: &User| {
        let account = id.as_ref().ok().and_then(|Path(id)| id.parse().ok());
        account.map(|account| Place { account, naming: Naming::Path }).ok_or(AppError::NotFound)
    };
    answer(&context, &session, &uri, place).await
}

async fn answer(
    context: &AppContext,
    session: &Session,
    uri: &Uri,
    place: impl Fn(&User) -> Result<Place, AppError>,
) -> Response {
    match open(context, session, uri, place).await {
        Ok(response) => response,
        Err(AppError::SignedOut) => {
            let back = uri.path_and_query().map_or("/history.csv", |path| path.as_str());
            axum::response::Redirect::to(&login_path(back)).into_response()
        }
        Err(error) => (error.status(), format!("{error}\n")).into_response(),
    }
}

/// Reads the first rows before it answers, so that what goes wrong at once has its own status.
async fn open(
    context: &AppContext,
    session: &Session,
    uri: &Uri,
    place: impl Fn(&User) -> Result<Place, AppError>,
) -> Result<Response, AppError> {
    let user = user_of(&context.access, session).await?.ok_or(AppError::SignedOut)?;
    let may = rights::may_read(&user, place(&user)?.account)?;
    let account = context.ledger.account(may.account()).await?.ok_or(AppError::NotFound)?;
    let parsed = query::parse(uri.query().unwrap_or_default());
    if !parsed.problems.is_empty() {
        return Err(AppError::Invalid(parsed.problems));
    }
    let zone = parsed.query.zone.resolve(&account.time_zone);
    let mut export = Export {
        ledger: context.ledger.clone(),
        account: account.id,
        query: parsed.query.entry_query(zone),
        zone,
        step: Step::Rows(None),
        count: 0,
        amount: Credits::ZERO,
        moved: Credits::ZERO,
    };
    let with_bom = parsed.typed.get("bom").is_some_and(|value| value == "1");
    let mut head = if with_bom { "\u{feff}".as_bytes().to_vec() } else { Vec::new() };
    head.extend(records([COLUMNS.map(str::to_owned)])?);
    head.extend(export.next().await?.unwrap_or_default());
    let rest = stream::try_unfold(export, |mut export| async move {
        Ok::<_, AppError>(export.next().await?.map(|bytes| (bytes, export)))
    });
    // An error in the middle breaks the transfer off: a cut file must not look whole.
    let body = Body::from_stream(
        stream::once(async { Ok(head) }).chain(rest).map(|chunk| chunk.map_err(std::io::Error::other)),
    );
    let name = HeaderValue::from_str(&format!("attachment; filename=\"history-{}.csv\"", account.id))
        .map_err(|_| AppError::Internal)?;
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/csv; charset=utf-8; header=present")),
        (header::CONTENT_DISPOSITION, name),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    Ok((headers, body).into_response())
}

enum Step {
    /// The page at this cursor comes next.
    Rows(Option<String>),
    Foot,
    Done,
}

struct Export {
    ledger: Ledger,
    account: AccountId,
    query: EntryQuery,
    zone: Tz,
    step: Step,
    count: i64,
    amount: Credits,
    moved: Credits,
}

impl Export {
    async fn next(&mut self) -> Result<Option<Vec<u8>>, AppError> {
        match std::mem::replace(&mut self.step, Step::Done) {
            Step::Rows(None) => {
                let first = PageRequest { cursor: None, limit: ROWS };
                let History { pending, page } =
                    self.ledger.history(self.account, &self.query, &first).await?;
                self.add_up(&pending)?;
                let mut text = records(pending.iter().map(|entry| pending_row(entry, self.zone)))?;
                text.extend(self.page(page)?);
                Ok(Some(text))
            }
            Step::Rows(cursor) => {
                let request = PageRequest { cursor, limit: ROWS };
                let page = self.ledger.entries(self.account, &self.query, &request).await?;
                self.page(page).map(Some)
            }
            Step::Foot => records([foot(self.count, self.amount, self.moved)]).map(Some),
            Step::Done => Ok(None),
        }
    }

    fn page(&mut self, page: Page<Entry>) -> Result<Vec<u8>, AppError> {
        self.step = page.next.map_or(Step::Foot, |cursor| Step::Rows(Some(cursor)));
        self.add_up(&page.rows)?;
        records(page.rows.iter().map(|entry| row(entry, self.zone)))
    }

    fn add_up(&mut self, rows: &[Entry]) -> Result<(), AppError> {
        for entry in rows {
            self.count += 1;
            self.amount = self.amount.plus(entry.amount).map_err(|_| AppError::Internal)?;
            self.moved = self.moved.plus(entry.moved).map_err(|_| AppError::Internal)?;
        }
        Ok(())
    }
}

fn row(entry: &Entry, zone: Tz) -> [String; 19] {
    let time = |at: DateTime<Utc>| at.with_timezone(&zone).to_rfc3339_opts(SecondsFormat::Micros, false);
    let word = |text: &Option<String>| text.as_deref().map(guarded).unwrap_or_default();
    let grants: Vec<String> = paid_from(entry)
        .into_iter()
        .map(|(grant, amount)| match grant {
            Some(grant) => format!("{grant}={amount}"),
            None => format!("debt={amount}"),
        })
        .collect();
    // The sum of two stored balances is inside the range of each; beyond it the cell stays empty.
    let balance =
        entry.available_after.plus(entry.held_after).map(|balance| balance.to_string()).unwrap_or_default();
    [
        entry.seq.to_string(),
        entry.kind.as_str().to_owned(),
        time(entry.effective_at),
        time(entry.occurred_at),
        time(entry.recorded_at),
        entry.amount.to_string(),
        entry.moved.to_string(),
        entry.available_after.to_string(),
        entry.held_after.to_string(),
        balance,
        grants.join("; "),
        word(&entry.call.request_ref),
        word(&entry.call.model),
        word(&entry.call.member),
        word(&entry.call.key_ref),
        word(&entry.call.job_id),
        entry.hold.map(|hold| hold.to_string()).unwrap_or_default(),
        entry.reverses.map(|seq| seq.to_string()).unwrap_or_default(),
        word(&entry.words.reason),
    ]
}

/// What fell due but is not written yet has no number and was recorded at no time; these cells stay empty.
fn pending_row(entry: &Entry, zone: Tz) -> [String; 19] {
    let mut cells = row(entry, zone);
    cells[0].clear();
    cells[4].clear();
    cells
}

fn foot(count: i64, amount: Credits, moved: Credits) -> [String; 19] {
    let mut cells: [String; 19] = std::array::from_fn(|_| String::new());
    cells[0] = "total".to_owned();
    cells[1] = format!("{count} rows");
    cells[5] = amount.to_string();
    cells[6] = moved.to_string();
    cells
}

/// Text that opens like a formula gets an apostrophe in front, as does text that opens with one, so that the
/// guard can be taken off again.
fn guarded(text: &str) -> String {
    match text.chars().next() {
        Some('=' | '+' | '-' | '@' | '\t' | '\r' | '\n' | '\0' | '\'' | '＝' | '＋' | '－' | '＠') => {
            format!("'{text}")
        }
        _ => text.to_owned(),
    }
}

fn records(rows: impl IntoIterator<Item = [String; 19]>) -> Result<Vec<u8>, AppError> {
    let mut writer = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new());
    for row in rows {
        writer.write_record(row).map_err(|_| AppError::Internal)?;
    }
    writer.into_inner().map_err(|_| AppError::Internal)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::components::samples::entry;

    #[test]
    fn c15_a_small_charge_keeps_its_digits_and_sign() {
        let mut charge = entry(3, "-0.0768");
        charge.call.model = Some("=HYPERLINK(\"x\")".to_owned());
        charge.words.reason = Some("said \"no\", twice".to_owned());
        let cells = row(&charge, Tz::UTC);
        assert_eq!(cells[5], "-0.0768");
        assert_eq!(cells[12], "'=HYPERLINK(\"x\")");
        let text = String::from_utf8(records([cells]).unwrap()).unwrap();
        assert!(text.contains(",-0.0768,"), "{text}");
        assert!(text.contains("\"'=HYPERLINK(\"\"x\"\")\""), "{text}");
        assert!(text.ends_with("\"said \"\"no\"\", twice\"\r\n"), "{text}");
    }

    #[test]
    fn times_carry_the_offset_of_the_zone() {
        let cells = row(&entry(1, "5"), Tz::Europe__Berlin);
        assert_eq!(cells[2], "2026-11-30T13:00:00.000000+01:00");
    }

    #[test]
    fn only_text_that_opens_like_a_formula_is_guarded() {
        for text in ["=1", "+1", "-1", "@a", "\tx", "\u{0}x", "'x"] {
            assert_eq!(guarded(text), format!("'{text}"));
        }
        for text in ["", "a=1", "gpt-4o", "1-2", "ä"] {
            assert_eq!(guarded(text), text);
        }
    }

    #[test]
    fn the_foot_has_as_many_cells_as_a_row() {
        let text = String::from_utf8(records([foot(2, Credits::whole(3), Credits::ZERO)]).unwrap()).unwrap();
        assert_eq!(text, "total,2 rows,,,,3,0,,,,,,,,,,,,\r\n");
    }
}
