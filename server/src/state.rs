//! What every handler shares. Cheap to clone.

use std::ops::Deref;
use std::sync::Arc;

use axum::extract::FromRef;
use backoffice::Instance;
use backoffice::access::{Access, AccessOptions};
use chrono::{DateTime, Utc};
use ledger::Ledger;
use leptos_config::LeptosOptions;
use sqlx::PgPool;

use crate::config::Config;
use crate::http::assets::Site;
use crate::http::metrics::Metrics;
use crate::http::v1::RecentHolds;
use crate::security::RequestIds;

#[derive(Clone)]
pub struct AppState(Arc<Shared>);

/// One allocation for all of it: every request clones the handle more than once.
pub struct Shared {
    pub ledger: Ledger,
    pub access: Access,
    pub pool: PgPool,
    pub config: Config,
    pub leptos_options: LeptosOptions,
    pub metrics: Metrics,
    pub request_ids: RequestIds,
    pub site: Site,
    pub recent_holds: RecentHolds,
}

impl AppState {
    pub fn new(config: Config, pool: PgPool, ledger: Ledger) -> AppState {
        let options = AccessOptions {
            hashes_at_once: config.limits.password_hashes_at_once,
            session_ends: config.sessions.into(),
        };
        let site = Site::load(&config.leptos.site_root, &config.leptos.output_name);
        AppState(Arc::new(Shared {
            access: Access::new(pool.clone(), options),
            ledger,
            pool,
            leptos_options: config.leptos.clone(),
            config,
            metrics: Metrics::default(),
            request_ids: RequestIds::new(),
            site,
            recent_holds: RecentHolds::default(),
        }))
    }

    /// The path of the built stylesheet, if there is one.
    pub fn stylesheet(&self) -> Option<&str> {
        self.site.names().css.as_deref()
    }

    /// What pages are told of this instance.
    pub fn instance(&self) -> Instance {
        Instance { test_clock: self.config.test_clock, base_url: self.config.http.base_url.clone() }
    }
}

impl Deref for AppState {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

/// The machine's clock, for what people and keys are bound to: sessions, throttling, ids. What the journal
/// decides goes by the ledger's own clock.
#[expect(clippy::disallowed_methods, reason = "the one place of this crate where time comes in")]
pub fn machine_now() -> DateTime<Utc> {
    Utc::now()
}

impl FromRef<AppState> for Ledger {
    fn from_ref(state: &AppState) -> Ledger {
        state.ledger.clone()
    }
}

impl FromRef<AppState> for Access {
    fn from_ref(state: &AppState) -> Access {
        state.access.clone()
    }
}

impl FromRef<AppState> for LeptosOptions {
    fn from_ref(state: &AppState) -> LeptosOptions {
        state.leptos_options.clone()
    }
}
