//! How the types that carry limits describe themselves in the API description.

use std::borrow::Cow;

use utoipa::openapi::schema::{AnyOfBuilder, KnownFormat, ObjectBuilder, SchemaFormat, SchemaType, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use ledger::account::AccountStatus;
use ledger::command::ReasonCode;
use ledger::entry::{Direction, Kind, LedgerAccount};
use ledger::grant::Pool;
use ledger::hold::HoldStatus;

use super::input::{Amount, ExpiresAt, Metadata, PositiveAmount, SignedAmount, Text, Time};

use crate::http::problem::breaker_word;

const CREDITS_PATTERN: &str = "^-?[0-9]{1,20}(\\.[0-9]{1,6})?$";
const AMOUNT_PATTERN: &str = "^[0-9]{1,13}(\\.[0-9]{1,6})?$";
const SIGNED_PATTERN: &str = "^-?[0-9]{1,13}(\\.[0-9]{1,6})?$";

/// An amount in an answer.
pub struct CreditsText;
/// 32 bytes in hexadecimal.
pub struct HexText;
/// Words that an answer takes one of; which ones is asked of the types that write them.
pub struct AccountState;
pub struct ActorKindName;
pub struct Breaker;
pub struct DirectionName;
pub struct EntryKind;
pub struct GrantState;
pub struct HoldState;
pub struct LedgerAccountName;
pub struct PoolName;
pub struct ReasonCodeName;
/// Metadata in an answer.
pub struct MetadataObject;

fn string() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String)
}

fn amount_input(pattern: &str, number: ObjectBuilder, description: &str) -> RefOr<Schema> {
    let text = string().pattern(Some(pattern)).examples(["12.5"]);
    RefOr::T(Schema::AnyOf(
        AnyOfBuilder::new().item(text).item(number).description(Some(description)).build(),
    ))
}

/// The number form of an amount.
fn number() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::Number).maximum(Some(1_000_000_000_000_i64))
}

fn time() -> ObjectBuilder {
    string().format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
}

fn metadata(description: &str) -> RefOr<Schema> {
    ObjectBuilder::new().schema_type(Type::Object).description(Some(description)).build().into()
}

fn one_of<'a>(words: impl IntoIterator<Item = &'a str>) -> RefOr<Schema> {
    string().enum_values(Some(words)).into()
}

macro_rules! described {
    ($type:ty, $name:literal, $schema:expr) => {
        impl PartialSchema for $type {
            fn schema() -> RefOr<Schema> {
                $schema
            }
        }

        impl ToSchema for $type {
            fn name() -> Cow<'static, str> {
                Cow::Borrowed($name)
            }
        }
    };
}

described!(
    CreditsText,
    "Credits",
    string()
        .pattern(Some(CREDITS_PATTERN))
        .description(Some("A decimal string with up to 6 places."))
        .examples(["12.5"])
        .into()
);
described!(HexText, "Hash", string().pattern(Some("^[0-9a-f]{64}$")).into());
described!(MetadataObject, "MetadataOut", metadata("The caller's own values, as they were sent."));
described!(
    Amount,
    "Amount",
    amount_input(
        AMOUNT_PATTERN,
        number().minimum(Some(0)),
        "0 to 10^12 with up to 6 decimal places: a decimal string, or a number, which is taken exactly as written."
    )
);
described!(
    PositiveAmount,
    "PositiveAmount",
    amount_input(
        AMOUNT_PATTERN,
        number().exclusive_minimum(Some(0)),
        "Above 0, up to 10^12, with up to 6 decimal places: a decimal string, or a number, which is taken exactly as written."
    )
);
described!(
    SignedAmount,
    "SignedAmount",
    amount_input(
        SIGNED_PATTERN,
        number().minimum(Some(-1_000_000_000_000_i64)),
        "Up to 10^12 either way, not 0, with up to 6 decimal places: a decimal string, or a number, which is taken exactly as written."
    )
);
described!(Time, "Time", time().description(Some("RFC 3339 with an offset, 1970 to 9999.")).into());
described!(
    ExpiresAt,
    "ExpiresAt",
    time()
        .schema_type(SchemaType::Array(vec![Type::String, Type::Null]))
        .description(Some("Null never ends; absent goes by the account's policy."))
        .into()
);
described!(
    Metadata,
    "Metadata",
    metadata(
        "Strings, numbers of at most 15 digits (whole numbers: 64 bits) and booleans, with objects of these one level down. \
         At most 8 KiB as JSON."
    )
);

impl<const MAX: usize> PartialSchema for Text<MAX> {
    fn schema() -> RefOr<Schema> {
        string().min_length(Some(1)).max_length(Some(MAX)).into()
    }
}

impl<const MAX: usize> ToSchema for Text<MAX> {
    fn name() -> Cow<'static, str> {
        Cow::Owned(format!("Text{MAX}"))
    }
}

described!(AccountState, "AccountState", one_of(AccountStatus::ALL.map(AccountStatus::as_str)));
described!(ActorKindName, "ActorKind", one_of(["api_key", "user", "worker", "payment"]));
described!(Breaker, "Breaker", one_of([breaker_word(false), breaker_word(true)]));
described!(DirectionName, "Direction", one_of(Direction::ALL.iter().map(|direction| direction.as_str())));
described!(EntryKind, "EntryKind", one_of(Kind::ALL.iter().map(|kind| kind.as_str())));
described!(GrantState, "GrantState", one_of(["live", "ended"]));
described!(HoldState, "HoldStatus", one_of(HoldStatus::ALL.map(HoldStatus::as_str)));
described!(
    LedgerAccountName,
    "LedgerAccount",
    one_of(LedgerAccount::ALL.iter().map(|account| account.as_str()))
);
described!(PoolName, "Pool", one_of(Pool::ALL.map(Pool::as_str)));
described!(ReasonCodeName, "ReasonCode", one_of(ReasonCode::ALL.map(ReasonCode::as_str)));
