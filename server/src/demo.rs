//! Demo data for an empty database: four logins, and two customers with some weeks of history.
//!
//! Every entry is made by the ledger's own verbs, one instant after the other, under a test clock that starts four
//! weeks ago and is taken away at the end. [`story`] says what happens; to add to it, add a step there. Passwords are
//! random and leave this module once.

mod story;

use backoffice::access::{Access, AccessError, CreateUserError, NewPassword, NewUser, Role, User};
use chrono::{DateTime, Duration, Utc};
use ledger::Ledger;
use ledger::command::{
    Actor, CallFields, Command, Expiry, Origin, ReasonCode, ReverseOutcome, Verb, key_digest,
};
use ledger::entry::Words;
use ledger::ids::{AccountId, GrantId, HoldId, Seq};
use ledger::quota::{Quota, Subject, Window};
use ledger::service::{PageError, PageRequest, PostError, Posted, ReadError};

use story::{Act, CUSTOMERS, Call, Step};

/// The demo customer, to whom the first account of `daybook drive` belongs.
pub const CUSTOMER_REF: &str = CUSTOMERS[0].external_ref;
pub const CUSTOMER_NAME: &str = CUSTOMERS[0].name;

/// The last login made: where it is, the demo data is whole.
const ADMIN_EMAIL: &str = "admin@demo.example";
const SUPPORT_EMAIL: &str = "support@demo.example";
const DEMO_REF_PREFIX: &str = "demo-";

/// A login; the password is shown once.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Login {
    pub role: Role,
    pub email: String,
    pub password: String,
}

/// A customer's account.
#[derive(Clone, Debug, serde::Serialize)]
pub struct DemoAccount {
    pub id: AccountId,
    pub external_ref: &'static str,
    pub name: &'static str,
}

/// What was made.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Demo {
    pub logins: Vec<Login>,
    pub accounts: Vec<DemoAccount>,
    pub entries: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    #[error(transparent)]
    Access(#[from] AccessError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Page(#[from] PageError),
    #[error("{step}: {error}")]
    Post { step: String, error: PostError },
    #[error("a login cannot be made: {0}")]
    Login(CreateUserError),
    #[error("{0}: the answer has no entry")]
    NoEntry(String),
}

/// Where the clock is left when all is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockAfter {
    /// Time goes on by itself.
    Running,
    /// A rehearsal instance: it stands at the last instant.
    Standing,
}

/// The handles that loading needs.
pub struct Loader<'a> {
    pub ledger: &'a Ledger,
    pub access: &'a Access,
    /// The machine's clock.
    pub now: DateTime<Utc>,
    pub clock_after: ClockAfter,
}

/// What the steps need to know of those before them.
struct Cast {
    accounts: Vec<AccountId>,
    /// The latest charge of each account, for the refund.
    charges: Vec<Option<Seq>>,
    support: Actor,
    entries: u64,
}

impl Loader<'_> {
    /// Whether there is nothing here yet, or only what an interrupted loading left.
    pub async fn is_empty(&self) -> Result<bool, DemoError> {
        let is_whole = self.access.user_by_email(ADMIN_EMAIL).await?.is_some();
        let was_begun = self.access.user_by_email(SUPPORT_EMAIL).await?.is_some();
        if is_whole || (self.access.users_exist().await? && !was_begun) {
            return Ok(false);
        }
        let accounts = self.ledger.accounts("", &PageRequest::default()).await?;
        let is_demo = |reference: Option<&str>| {
            reference.is_some_and(|reference| reference.starts_with(DEMO_REF_PREFIX))
        };
        Ok(accounts.rows.iter().all(|account| is_demo(account.external_ref.as_deref())))
    }

    /// Makes everything; `progress` is told of each of so many steps.
    pub async fn load(&self, progress: impl Fn(usize, usize)) -> Result<Demo, DemoError> {
        let (support, support_password) = self.login(Role::Support, SUPPORT_EMAIL, Vec::new()).await?;
        let steps = story::steps(self.now);
        let mut cast = Cast {
            accounts: Vec::new(),
            charges: vec![None; CUSTOMERS.len()],
            support: support.actor(),
            entries: 0,
        };
        let told = self.tell(&steps, &mut cast, progress).await;
        self.leave_clock().await?;
        told?;
        self.leave_open_hold(&mut cast).await?;
        let mut logins = vec![support_password];
        let customer = vec![cast.accounts[0]];
        for (role, email, accounts) in [
            (Role::Customer, "customer@demo.example", customer),
            (Role::Finance, "finance@demo.example", vec![]),
            (Role::Admin, ADMIN_EMAIL, vec![]),
        ] {
            logins.push(self.login(role, email, accounts).await?.1);
        }
        logins.sort_by_key(|login| Role::ALL.iter().position(|role| *role == login.role));
        let accounts = CUSTOMERS.iter().zip(&cast.accounts);
        let accounts = accounts.map(|(customer, id)| DemoAccount {
            id: *id,
            external_ref: customer.external_ref,
            name: customer.name,
        });
        Ok(Demo { logins, accounts: accounts.collect(), entries: cast.entries })
    }

    async fn tell(
        &self,
        steps: &[Step],
        cast: &mut Cast,
        progress: impl Fn(usize, usize),
    ) -> Result<(), DemoError> {
        for (number, step) in steps.iter().enumerate() {
            self.ledger.set_test_clock(step.at).await?;
            self.act(number, step, cast).await?;
            progress(number + 1, steps.len());
        }
        let quota = Quota {
            subject: Subject::Member("m-oak".to_owned()),
            window: Window::Month,
            limit: ledger::Credits::whole(2_000),
        };
        self.ledger.set_quota(cast.accounts[0], &quota).await?;
        Ok(())
    }

    async fn act(&self, number: usize, step: &Step, cast: &mut Cast) -> Result<(), DemoError> {
        let gateway = Actor::api_key("demo-gateway");
        let key = |part: &str| format!("demo-{number}-{part}");
        match &step.act {
            Act::Open => {
                let posted = self.open(step, &key("open"), cast).await?;
                cast.accounts.push(posted);
            }
            Act::Grant { amount, pool, source, ends_after_days } => {
                let expires =
                    ends_after_days.map_or(Expiry::Policy, |days| Expiry::At(step.at + Duration::days(days)));
                let verb = Verb::Grant {
                    id: GrantId::new(step.at),
                    amount: *amount,
                    pool: *pool,
                    expires,
                    source: Some((*source).to_owned()),
                };
                self.post(step, &key("grant"), gateway, verb, CallFields::default(), None, cast).await?;
            }
            Act::Charge { amount, call } => {
                let posted = self
                    .post(
                        step,
                        &key("charge"),
                        gateway,
                        Verb::Charge { amount: *amount },
                        call.fields(number),
                        None,
                        cast,
                    )
                    .await?;
                cast.charges[step.account] = posted.set.main().map(|entry| entry.seq);
            }
            Act::Call { hold, settle, call } => self.call(number, step, (*hold, *settle), call, cast).await?,
            Act::TimeOut { hold, call } => {
                let id = self.hold(step, &key("hold"), *hold, call.fields(number), cast).await?;
                self.ledger.set_test_clock(step.at + Duration::seconds(90)).await?;
                let verb = Verb::Reverse { hold: id, outcome: ReverseOutcome::Unknown };
                self.post(
                    step,
                    &key("reverse"),
                    gateway,
                    verb,
                    CallFields::default(),
                    Some("no answer within 90 s"),
                    cast,
                )
                .await?;
            }
            Act::GiveUp { hold, call } => {
                let id = self.hold(step, &key("hold"), *hold, call.fields(number), cast).await?;
                self.ledger.set_test_clock(step.at + Duration::seconds(4)).await?;
                self.post(
                    step,
                    &key("release"),
                    gateway,
                    Verb::Release { hold: id },
                    CallFields::default(),
                    None,
                    cast,
                )
                .await?;
            }
            Act::Refund { reason } => {
                if let Some(seq) = cast.charges[step.account] {
                    let verb = Verb::Refund { seq, amount: None };
                    self.post(
                        step,
                        &key("refund"),
                        cast.support.clone(),
                        verb,
                        CallFields::default(),
                        Some(reason),
                        cast,
                    )
                    .await?;
                }
            }
            Act::Goodwill { amount, reason } => {
                let verb = Verb::Adjust {
                    id: GrantId::new(step.at),
                    amount: *amount,
                    code: ReasonCode::Goodwill,
                    pool: None,
                    expires: Expiry::Policy,
                };
                self.post(
                    step,
                    &key("goodwill"),
                    cast.support.clone(),
                    verb,
                    CallFields::default(),
                    Some(reason),
                    cast,
                )
                .await?;
            }
            Act::Mark { marker, job } => {
                let fields = CallFields { job_id: Some((*job).to_owned()), ..CallFields::default() };
                self.post(step, &key("mark"), gateway, Verb::Mark { marker: *marker }, fields, None, cast)
                    .await?;
            }
        }
        Ok(())
    }

    async fn open(&self, step: &Step, key: &str, cast: &mut Cast) -> Result<AccountId, DemoError> {
        let customer = &CUSTOMERS[step.account];
        let policy = self.ledger.policy("default").await?.unwrap_or_default();
        let verb = Verb::Open {
            external_ref: customer.external_ref.to_owned(),
            name: Some(customer.name.to_owned()),
            email: Some(customer.email.to_owned()),
            policy,
            time_zone: customer.time_zone.to_owned(),
        };
        let command = command(AccountId::new(step.at), key, Actor::api_key("demo-gateway"), verb);
        let posted = self
            .ledger
            .submit(command)
            .await
            .map_err(|error| DemoError::Post { step: key.to_owned(), error })?;
        cast.entries += 1;
        posted.set.main().map(|entry| entry.account).ok_or_else(|| DemoError::NoEntry(key.to_owned()))
    }

    /// A call as a service makes it: a hold, some seconds of work, the true price.
    async fn call(
        &self,
        number: usize,
        step: &Step,
        (hold, settle): (ledger::Credits, ledger::Credits),
        call: &Call,
        cast: &mut Cast,
    ) -> Result<(), DemoError> {
        let id = self.hold(step, &format!("demo-{number}-hold"), hold, call.fields(number), cast).await?;
        self.ledger.set_test_clock(step.at + Duration::seconds(call.seconds)).await?;
        let fields = CallFields { request_ref: call.fields(number).request_ref, ..CallFields::default() };
        let verb = Verb::Settle { hold: id, amount: settle };
        self.post(
            step,
            &format!("demo-{number}-settle"),
            Actor::api_key("demo-gateway"),
            verb,
            fields,
            None,
            cast,
        )
        .await?;
        Ok(())
    }

    async fn hold(
        &self,
        step: &Step,
        key: &str,
        amount: ledger::Credits,
        fields: CallFields,
        cast: &mut Cast,
    ) -> Result<HoldId, DemoError> {
        let verb = Verb::Hold { id: HoldId::new(step.at), amount, expires_in_s: None };
        let posted = self.post(step, key, Actor::api_key("demo-gateway"), verb, fields, None, cast).await?;
        posted.set.main().and_then(|entry| entry.hold).ok_or_else(|| DemoError::NoEntry(key.to_owned()))
    }

    #[expect(clippy::too_many_arguments, reason = "a command has as many parts, and every step names them")]
    async fn post(
        &self,
        step: &Step,
        key: &str,
        actor: Actor,
        verb: Verb,
        call: CallFields,
        reason: Option<&str>,
        cast: &mut Cast,
    ) -> Result<Posted, DemoError> {
        let words = Words { reason: reason.map(str::to_owned), metadata: None };
        let command = Command { call, words, ..command(cast.accounts[step.account], key, actor, verb) };
        self.submit(command, key, cast).await
    }

    async fn submit(&self, command: Command, key: &str, cast: &mut Cast) -> Result<Posted, DemoError> {
        let posted = self
            .ledger
            .submit(command)
            .await
            .map_err(|error| DemoError::Post { step: key.to_owned(), error })?;
        cast.entries += u64::try_from(posted.set.entries.len()).unwrap_or(0);
        Ok(posted)
    }

    /// A call that is still running when the demo is first looked at.
    async fn leave_open_hold(&self, cast: &mut Cast) -> Result<(), DemoError> {
        let now = self.ledger.now().await?;
        let call = Call { model: "chat-large", member: "m-oak", seconds: 0 };
        let verb = Verb::Hold {
            id: HoldId::new(now),
            amount: ledger::Credits::whole(18),
            expires_in_s: Some(3_600),
        };
        let command = command(cast.accounts[0], "demo-running", Actor::api_key("demo-gateway"), verb);
        self.submit(Command { call: call.fields(9_999), ..command }, "demo-running", cast).await?;
        Ok(())
    }

    async fn leave_clock(&self) -> Result<(), DemoError> {
        match self.clock_after {
            ClockAfter::Running => {
                self.ledger.remove_test_clock().await?;
            }
            ClockAfter::Standing => {
                self.ledger.set_test_clock(self.now).await?;
            }
        }
        Ok(())
    }

    /// A login with a fresh password. One that an interrupted loading left gets a new password, since nobody saw the first.
    async fn login(
        &self,
        role: Role,
        email: &str,
        accounts: Vec<AccountId>,
    ) -> Result<(User, Login), DemoError> {
        let new = NewUser { email: email.to_owned(), role, accounts, password: NewPassword::Generated };
        let (user, password) = match self.access.create_user(new, self.now).await {
            Ok(created) => (created.user, created.generated_password),
            Err(CreateUserError::EmailTaken) => {
                let user = self
                    .access
                    .user_by_email(email)
                    .await?
                    .ok_or(DemoError::Login(CreateUserError::EmailTaken))?;
                let password = self
                    .access
                    .set_password(user.id, NewPassword::Generated)
                    .await
                    .map_err(DemoError::Login)?;
                (user, password)
            }
            Err(error) => return Err(DemoError::Login(error)),
        };
        let login = Login { role, email: email.to_owned(), password: password.unwrap_or_default() };
        Ok((user, login))
    }
}

fn command(account: AccountId, key: &str, actor: Actor, verb: Verb) -> Command {
    Command {
        account,
        key: Some((Origin::Api, key_digest(key))),
        actor,
        verb,
        call: CallFields::default(),
        occurred_at: None,
        words: Words::default(),
        source_address: None,
    }
}
