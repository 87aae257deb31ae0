//! A command before it is known who may post it.

use backoffice::access::rights::{MayAdjust, MayOpen, MayPost};
use chrono::{DateTime, Utc};
use ledger::command::{Actor, CallFields, Command, KeyName, Verb};
use ledger::entry::Words;
use ledger::ids::AccountId;

/// What a body says. Becomes a [`Command`] only with a proof of the right to post it.
#[derive(Debug)]
pub struct Draft {
    pub verb: Verb,
    pub call: CallFields,
    pub occurred_at: Option<DateTime<Utc>>,
    pub words: Words,
    pub source_address: Option<String>,
}

impl Draft {
    pub fn new(verb: Verb) -> Draft {
        Draft {
            verb,
            call: CallFields::default(),
            occurred_at: None,
            words: Words::default(),
            source_address: None,
        }
    }

    #[must_use]
    pub fn because(mut self, reason: Option<String>) -> Draft {
        self.words.reason = reason;
        self
    }

    pub fn command(self, may: MayPost, key: KeyName) -> Command {
        let account = may.account();
        self.by(account, may.into_actor(), key)
    }

    pub fn adjustment(self, may: MayAdjust, key: KeyName) -> Command {
        let account = may.account();
        self.by(account, may.into_actor(), key)
    }

    /// `account` is a new id; the ledger takes the one that the reference has, if there is one.
    pub fn opening(self, may: MayOpen, account: AccountId, key: KeyName) -> Command {
        self.by(account, may.into_actor(), key)
    }

    fn by(self, account: AccountId, actor: Actor, key: KeyName) -> Command {
        let Draft { verb, call, occurred_at, words, source_address } = self;
        Command { account, key: Some(key), actor, verb, call, occurred_at, words, source_address }
    }
}
