//! Reads the LiteLLM price map: a JSON object of models, each with dollars per token as JSON numbers.
//!
//! Numbers are read from their text, because `1.9e-08` through a binary float is another price.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::dollars::Dollars;
use super::error::RateCardError;
use super::price::ModelPrice;

/// The map's documentation of itself, which looks like a model priced at 0.
const DOCUMENTATION_ENTRY: &str = "sample_spec";
/// A shorter common beginning says nothing.
const LIKE_BYTES_MIN: usize = 3;

/// Prices by model name, and what was left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RateCard {
    pub models: BTreeMap<String, ModelPrice>,
    /// In the file's order. The documentation entry is not among them.
    pub skipped: Vec<Skipped>,
}

/// An entry that is no priced model, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    pub model: String,
    pub reason: String,
}

impl RateCard {
    /// Reads a whole price map. One odd entry is skipped and listed; a model named twice refuses the file, because
    /// either price could be meant.
    pub fn parse(text: &str) -> Result<RateCard, RateCardError> {
        let Members(members) = serde_json::from_str(text)?;
        let mut card = RateCard::default();
        for (model, raw) in members {
            if model == DOCUMENTATION_ENTRY {
                continue;
            }
            match read_entry(raw) {
                Ok(_) if card.models.contains_key(&model) => return Err(RateCardError::NamedTwice(model)),
                Ok(price) => {
                    card.models.insert(model, price);
                }
                Err(reason) => card.skipped.push(Skipped { model, reason }),
            }
        }
        Ok(card)
    }

    /// Names that `name` may have been meant to be, for an error message: those that begin as it does for longest, and
    /// of these the shortest.
    pub fn like(&self, name: &str, most: usize) -> Vec<&str> {
        let common =
            |known: &str| known.bytes().zip(name.bytes()).take_while(|(known, asked)| known == asked).count();
        let longest = self.models.keys().map(|known| common(known)).max().unwrap_or(0);
        if longest < LIKE_BYTES_MIN {
            return Vec::new();
        }
        let names = self.models.keys().map(String::as_str);
        let mut names: Vec<&str> = names.filter(|known| common(known) == longest).collect();
        names.sort_by_key(|known| known.len());
        names.truncate(most);
        names
    }
}

/// The fields that price tokens; all others are of no concern here.
#[derive(Deserialize)]
struct PriceFields<'a> {
    #[serde(borrow, default)]
    input_cost_per_token: Option<&'a RawValue>,
    #[serde(borrow, default)]
    cache_read_input_token_cost: Option<&'a RawValue>,
    #[serde(borrow, default)]
    cache_creation_input_token_cost: Option<&'a RawValue>,
    #[serde(borrow, default)]
    output_cost_per_token: Option<&'a RawValue>,
}

fn read_entry(raw: &RawValue) -> Result<ModelPrice, String> {
    // A list would be read as the fields in their order.
    if !raw.get().starts_with('{') {
        return Err("is not an object".to_owned());
    }
    let fields: PriceFields<'_> = serde_json::from_str(raw.get()).map_err(|error| error.to_string())?;
    let price = ModelPrice {
        input: read_price("input_cost_per_token", fields.input_cost_per_token)?,
        cached_input: read_price("cache_read_input_token_cost", fields.cache_read_input_token_cost)?,
        cache_write: read_price("cache_creation_input_token_cost", fields.cache_creation_input_token_cost)?,
        output: read_price("output_cost_per_token", fields.output_cost_per_token)?,
    };
    if price.input.is_none() && price.output.is_none() {
        return Err("no token prices".to_owned());
    }
    Ok(price)
}

fn read_price(field: &str, raw: Option<&RawValue>) -> Result<Option<Dollars>, String> {
    let Some(text) = raw.map(RawValue::get).filter(|text| *text != "null") else {
        return Ok(None);
    };
    Dollars::parse_price(text).map(Some).map_err(|error| format!("{field} {error}"))
}

/// The members of an object in order, repeated names included; a map would keep the last one silently.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Members<'de>, D::Error> {
        deserializer.deserialize_map(MembersVisitor)
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of models")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(Members(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documentation_is_no_model_and_entries_without_token_prices_are_listed() {
        let card = RateCard::parse(
            r#"{
                "sample_spec": {"input_cost_per_token": 0.0, "mode": "one of: chat, embedding"},
                "small": {"input_cost_per_token": 1.9e-08, "output_cost_per_token": 7.6E-8, "max_tokens": 8192},
                "pictures": {"output_cost_per_image": 0.04},
                "embedder": {"input_cost_per_token": 2e-08, "output_cost_per_token": null},
                "odd": {"input_cost_per_token": "1e-6"},
                "minus": {"input_cost_per_token": -1e-6},
                "list": [1, 2]
            }"#,
        )
        .unwrap();
        assert_eq!(card.models.keys().collect::<Vec<_>>(), ["embedder", "small"]);
        assert_eq!(card.models["small"].input.unwrap().to_string(), "0.000000019");
        assert_eq!(card.models["small"].output.unwrap().to_string(), "0.000000076");
        assert_eq!(card.models["embedder"].output, None);
        let skipped: Vec<&str> = card.skipped.iter().map(|skipped| skipped.model.as_str()).collect();
        assert_eq!(skipped, ["pictures", "odd", "minus", "list"]);
        assert_eq!(card.skipped[0].reason, "no token prices");
        assert_eq!(card.skipped[2].reason, "input_cost_per_token is below zero");
    }

    #[test]
    fn two_prices_for_one_model_are_refused() {
        let twice = r#"{"m": {"input_cost_per_token": 1e-6}, "m": {"input_cost_per_token": 2e-6}}"#;
        assert!(matches!(RateCard::parse(twice), Err(RateCardError::NamedTwice(model)) if model == "m"));
        let inside = r#"{"m": {"input_cost_per_token": 1e-6, "input_cost_per_token": 2e-6}}"#;
        let card = RateCard::parse(inside).unwrap();
        assert!(card.models.is_empty());
        assert_eq!(card.skipped.len(), 1);
        assert!(RateCard::parse("[]").is_err());
        assert!(RateCard::parse("{").is_err());
    }

    #[test]
    fn a_mistyped_name_finds_those_that_begin_like_it() {
        let entry = r#"{"input_cost_per_token": 1e-6}"#;
        let map = format!(r#"{{"chat-small": {entry}, "chat-small-2": {entry}, "chat-large": {entry}}}"#);
        let card = RateCard::parse(&map).unwrap();
        assert_eq!(card.like("chat-smal", 3), ["chat-small", "chat-small-2"]);
        assert_eq!(card.like("chat-small-turbo", 1), ["chat-small-2"]);
        assert!(card.like("other", 3).is_empty());
    }

    // Counted with another JSON reader: 4,878 entries, one of them documentation, 932 without token prices.
    #[test]
    fn the_whole_published_map_is_read_to_the_last_entry() {
        let folder = std::env::var_os("DAYBOOK_SHARED_DATA").map_or_else(
            || std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data"),
            std::path::PathBuf::from,
        );
        let Ok(text) = std::fs::read_to_string(folder.join("litellm-model-prices.json")) else {
            eprintln!("skipped: the whole price map is not here (set DAYBOOK_SHARED_DATA to its folder)");
            return;
        };
        let card = RateCard::parse(&text).unwrap();
        assert_eq!(card.skipped.len(), 932);
        assert!(card.skipped.iter().all(|skipped| skipped.reason == "no token prices"));
        assert_eq!(card.models.len(), 4_878 - 1 - 932);
        let mini = card.models["gpt-4o-mini"];
        assert_eq!(mini.input.unwrap().to_string(), "0.00000015");
        assert_eq!(mini.cached_input.unwrap().to_string(), "0.000000075");
        assert_eq!(mini.output.unwrap().to_string(), "0.0000006");
    }
}
