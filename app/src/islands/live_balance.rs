//! The balance, kept current. Without script it stays what the server rendered.

use leptos::prelude::*;

use crate::api::load_balance::BalanceFigures;

/// Between two looks at the balance.
#[cfg(feature = "hydrate")]
const EVERY_MS: u64 = 5_000;
/// Looks of one page, ten minutes of them. Each look counts as use of the session, so a page that lies open must
/// not keep it alive for good.
#[cfg(feature = "hydrate")]
const LOOKS_MAX: u32 = 120;

/// How the island stands with the server.
#[derive(Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "ssr", expect(dead_code, reason = "only the browser leaves the first state"))]
enum Link {
    /// As the server rendered it; nothing polls.
    Still,
    Live,
    Lost,
    /// It looked often enough; a reload goes on.
    Paused,
}

/// Available, held, balance and debt of an account.
#[island]
pub fn LiveBalance(account: String, tz: String, first: BalanceFigures) -> impl IntoView {
    let (figures, set_figures) = signal(first);
    let (link, set_link) = signal(Link::Still);
    keep_current(account, tz, set_figures, set_link);
    let stopped = move || figures.with(|f| f.stopped.clone());
    view! {
        <dl class="balance">
            <div class="lead">
                <dt>"Available"</dt>
                <dd data-testid="available">{move || figures.with(|f| f.available.clone())}</dd>
            </div>
            <div>
                <dt>"Held"</dt>
                <dd data-testid="held">{move || figures.with(|f| f.held.clone())}</dd>
            </div>
            <div>
                <dt>"Balance"</dt>
                <dd data-testid="balance">{move || figures.with(|f| f.balance.clone())}</dd>
            </div>
            <div>
                <dt>"Debt"</dt>
                <dd data-testid="debt">{move || figures.with(|f| if f.debt.is_empty() { "none".to_owned() } else { f.debt.clone() })}</dd>
            </div>
        </dl>
        <p class="balance-note" class:stopped=move || !stopped().is_empty() data-testid="breaker">
            {move || if stopped().is_empty() { "New calls are accepted.".to_owned() } else { stopped() }}
        </p>
        <p class="as-of" data-live=move || (link.get() == Link::Live).then_some("yes")>
            "As of " <time datetime=move || figures.with(|f| f.as_of_utc.clone())>{move || figures.with(|f| f.as_of.clone())}</time>
            <span role="status">{move || match link.get() {
                Link::Still => "",
                Link::Live => " · live",
                Link::Lost => " · not live: the server cannot be reached, trying again",
                Link::Paused => " · no longer live: reload the page to go on",
            }}</span>
        </p>
    }
}

#[cfg(not(feature = "hydrate"))]
fn keep_current(_: String, _: String, _: WriteSignal<BalanceFigures>, _: WriteSignal<Link>) {}

/// Asks again every few seconds while the page is looked at. One question at a time: a slow answer is
/// waited for, so that answers cannot overtake each other.
#[cfg(feature = "hydrate")]
fn keep_current(account: String, tz: String, figures: WriteSignal<BalanceFigures>, link: WriteSignal<Link>) {
    use std::time::Duration;

    let busy = StoredValue::new(false);
    let looks = StoredValue::new(0_u32);
    let look = move || {
        if busy.get_value() || document().hidden() {
            return;
        }
        if looks.get_value() == LOOKS_MAX {
            link.set(Link::Paused);
            return;
        }
        looks.update_value(|looks| *looks += 1);
        busy.set_value(true);
        let (account, tz) = (account.clone(), tz.clone());
        leptos::task::spawn_local(async move {
            match crate::api::load_balance::load_balance(account, tz).await {
                Ok(now) => {
                    figures.set(now);
                    link.set(Link::Live);
                }
                Err(_) => link.set(Link::Lost),
            }
            busy.set_value(false);
        });
    };
    Effect::new(move |_| {
        look();
        let again = look.clone();
        set_interval(again, Duration::from_millis(EVERY_MS));
    });
}
