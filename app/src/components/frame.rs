//! What stands around every page: skip link, name, navigation, person, colour switch.

use backoffice::access::{Role, User};
use leptos::prelude::*;
use leptos_meta::Title;

use super::page::Shown;
use crate::history::place::{Naming, Place};
use crate::history::query::HistoryQuery;
use crate::session::{Visit, login_path};
use crate::shell::Theme;

/// The entry of the navigation that a page stands under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tab {
    None,
    Home,
    Overview,
    History,
    Accounts,
}

/// Who looks at a page, as far as it is known.
#[derive(Clone, Copy)]
pub enum Person<'a> {
    Known(&'a User),
    Nobody,
    /// It could not be looked up; the page offers neither to sign in nor to sign out.
    Unknown,
}

impl<'a> Person<'a> {
    pub fn of(user: Option<&'a User>) -> Person<'a> {
        user.map_or(Person::Nobody, Person::Known)
    }

    fn known(self) -> Option<&'a User> {
        match self {
            Person::Known(user) => Some(user),
            Person::Nobody | Person::Unknown => None,
        }
    }
}

/// The whole body of the document.
pub fn frame(visit: &Visit, looking: Person<'_>, shown: Shown) -> AnyView {
    let Shown { title, tab, place, body, .. } = shown;
    let title = format!("{title} · Daybook");
    let rehearsal = visit.instance.test_clock.then(|| {
        view! { <p class="rehearsal" role="note">"Rehearsal: this instance runs on a clock that is set by hand. Nothing here is real."</p> }
    });
    view! {
        <Title text=title/>
        <a class="skip" href="#main">"Skip to content"</a>
        {rehearsal}
        <header class="top">
            <a class="brand" href="/">"Daybook"</a>
            {looking.known().map(|user| main_nav(user, tab, place))}
            {person(visit, looking)}
        </header>
        <main id="main" tabindex="-1">
            {account_nav(tab, place)}
            {body}
        </main>
        <footer class="bottom">{theme_switch(visit)}</footer>
    }
    .into_any()
}

fn link(href: String, text: &'static str, is_current: bool) -> AnyView {
    view! { <li><a href=href aria-current=is_current.then_some("page")>{text}</a></li> }.into_any()
}

fn main_nav(user: &User, tab: Tab, place: Option<Place>) -> AnyView {
    let items = match (user.role, place) {
        (Role::Customer, Some(place)) => account_links(place, tab),
        (Role::Customer, None) => {
            vec![link("/".to_owned(), "Overview", false), link("/history".to_owned(), "History", false)]
        }
        (Role::Support | Role::Finance | Role::Admin, _) => {
            vec![
                link("/".to_owned(), "Start", tab == Tab::Home),
                link("/accounts".to_owned(), "Accounts", tab == Tab::Accounts),
            ]
        }
    };
    view! { <nav aria-label="Main"><ul>{items}</ul></nav> }.into_any()
}

fn account_links(place: Place, tab: Tab) -> Vec<AnyView> {
    let plain = HistoryQuery::default();
    vec![
        link(place.overview(&plain), "Overview", tab == Tab::Overview),
        link(place.history(&plain), "History", tab == Tab::History),
    ]
}

/// Staff look at an account inside their own navigation.
fn account_nav(tab: Tab, place: Option<Place>) -> Option<AnyView> {
    let place = place.filter(|place| place.naming == Naming::Path)?;
    Some(
        view! { <nav class="tabs" aria-label="Account"><ul>{account_links(place, tab)}</ul></nav> }
            .into_any(),
    )
}

fn person(visit: &Visit, looking: Person<'_>) -> AnyView {
    match looking {
        Person::Known(user) => {
            let role = (user.role != Role::Customer)
                .then(|| view! { <span class="role">{user.role.as_str()}</span> });
            view! {
                <div class="person">
                    <span class="email">{user.email.clone()}</span>
                    {role}
                    <form method="post" action="/api/sign_out"><button class="quiet" type="submit">"Sign out"</button></form>
                </div>
            }
            .into_any()
        }
        Person::Unknown => ().into_any(),
        Person::Nobody => {
            let path = visit.path_and_query();
            let is_there = path == "/login" || path.starts_with("/login?");
            (!is_there)
                .then(|| view! { <div class="person"><a href=login_path(&path)>"Sign in"</a></div> })
                .into_any()
        }
    }
}

fn theme_switch(visit: &Visit) -> AnyView {
    let chosen = visit.theme();
    let back = without_theme(&visit.path_and_query());
    let button = |value: &'static str, text: &'static str, is_on: bool| {
        view! { <button type="submit" name="theme" value=value aria-pressed=if is_on { "true" } else { "false" }>{text}</button> }
    };
    view! {
        <form class="theme" method="post" action="/api/set_theme" aria-label="Colours">
            <input type="hidden" name="back" value=back/>
            {button("system", "System", chosen.is_none())}
            {button("light", "Light", chosen == Some(Theme::Light))}
            {button("dark", "Dark", chosen == Some(Theme::Dark))}
        </form>
    }
    .into_any()
}

/// The way back after the switch, without a `theme` that would override it.
fn without_theme(path_and_query: &str) -> String {
    match path_and_query.split_once('?') {
        Some((path, query)) => {
            let kept: Vec<&str> = query.split('&').filter(|pair| !pair.starts_with("theme=")).collect();
            if kept.is_empty() { path.to_owned() } else { format!("{path}?{}", kept.join("&")) }
        }
        None => path_and_query.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::without_theme;

    #[test]
    fn the_way_back_keeps_everything_but_the_theme() {
        assert_eq!(without_theme("/history?kind=NOTE&theme=dark&tz=utc"), "/history?kind=NOTE&tz=utc");
        assert_eq!(without_theme("/?theme=dark"), "/");
        assert_eq!(without_theme("/history"), "/history");
    }
}
