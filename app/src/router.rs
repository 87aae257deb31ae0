//! The routes of the pages. Every one of them has a row in the rights table of `backoffice::access`.

use leptos::prelude::*;
use leptos_meta::provide_meta_context;
use leptos_router::components::{Outlet, ParentRoute, Route, Router, Routes};
use leptos_router::{SsrMode, path};

use crate::pages::customer::{EntryPage, HistoryPage};
use crate::pages::staff::{AccountEntryPage, AccountHistoryPage, AccountOverviewPage, AccountsPage};
use crate::pages::{HomePage, LoginPage, NotFoundPage};

/// All pages. `SsrMode::Async` on the outer route holds for all of them: the page is whole, and its status is
/// known, before the first byte leaves.
#[component]
pub fn App() -> impl IntoView {
    provide_meta_context();
    view! {
        <Router>
            <Routes fallback=NotFoundPage>
                <ParentRoute path=path!("") view=Outlet ssr=SsrMode::Async>
                    <Route path=path!("") view=HomePage/>
                    <Route path=path!("login") view=LoginPage/>
                    <Route path=path!("history") view=HistoryPage/>
                    <Route path=path!("history/:seq") view=EntryPage/>
                    <Route path=path!("accounts") view=AccountsPage/>
                    <Route path=path!("accounts/:id") view=AccountOverviewPage/>
                    <Route path=path!("accounts/:id/history") view=AccountHistoryPage/>
                    <Route path=path!("accounts/:id/history/:seq") view=AccountEntryPage/>
                </ParentRoute>
            </Routes>
        </Router>
    }
}
