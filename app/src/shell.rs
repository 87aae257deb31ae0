//! The document around every page.
//!
//! The stylesheet and the hydration script are our own: the framework's take their names from a file beside the
//! executable, and write the nonce into an attribute that scripts of a page can read.

use axum::http::header;
use axum::http::request::Parts;
use leptos::config::LeptosOptions;
use leptos::nonce::use_nonce;
use leptos::prelude::*;
use leptos_meta::MetaTags;

use crate::context::Assets;
use crate::router::App;

/// The colour scheme a person chose; absent, the system's holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Theme {
    Light,
    Dark,
}

impl Theme {
    pub fn as_str(self) -> &'static str {
        match self {
            Theme::Light => "light",
            Theme::Dark => "dark",
        }
    }

    pub fn parse(text: &str) -> Option<Theme> {
        [Theme::Light, Theme::Dark].into_iter().find(|theme| theme.as_str() == text)
    }

    /// `?theme=` for one page, else the cookie.
    pub fn of_request(parts: &Parts) -> Option<Theme> {
        Theme::of(
            parts.uri.query().unwrap_or_default(),
            parts.headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok()),
        )
    }

    fn of<'a>(query: &str, mut cookies: impl Iterator<Item = &'a str>) -> Option<Theme> {
        let asked = form_urlencoded::parse(query.as_bytes())
            .find_map(|(name, value)| (name == "theme").then(|| Theme::parse(&value)));
        asked.unwrap_or_else(|| {
            cookies.find_map(|line| {
                line.split(';').find_map(|pair| Theme::parse(pair.trim().strip_prefix("theme=")?))
            })
        })
    }
}

/// The document. The options are the framework's; the names of our files come from [`Assets`].
pub fn shell(_options: LeptosOptions) -> impl IntoView {
    let theme = use_context::<Parts>().and_then(|parts| Theme::of_request(&parts));
    view! {
        <!DOCTYPE html>
        <html lang="en" data-theme=theme.map(Theme::as_str)>
            <head>
                <meta charset="utf-8"/>
                <meta name="viewport" content="width=device-width, initial-scale=1"/>
                <meta name="color-scheme" content=theme.map_or("light dark", Theme::as_str)/>
                <link rel="icon" href="/favicon.svg" type="image/svg+xml"/>
                <Stylesheet/>
                <HydrationScript/>
                <MetaTags/>
            </head>
            <body>
                <App/>
            </body>
        </html>
    }
}

#[component]
fn Stylesheet() -> impl IntoView {
    let Assets { css, .. } = use_context().unwrap_or_default();
    css.map(|href| view! { <link rel="stylesheet" href=href/> })
}

/// Wakes the islands of the page, in the order of the document, when the browser has time. Islands here have
/// no children of their own; one that has needs the framework's walk.
const WAKE: &str = "const wake=async()=>{const m=await import(JS);await m.default({module_or_path:WASM});m.hydrate();\
for(const el of document.querySelectorAll('leptos-island')){const f=m[el.dataset.component];if(f)await f(el)}};\
'requestIdleCallback' in window?requestIdleCallback(wake,{timeout:1000}):wake();";

#[component]
fn HydrationScript() -> impl IntoView {
    // What is rendered here is not hydrated as a whole: nothing needs to be serialised for the browser.
    if let Some(shared) = Owner::current_shared_context() {
        shared.set_is_hydrating(false);
    }
    let Assets { js, wasm, .. } = use_context().unwrap_or_default();
    let nonce = use_nonce();
    js.zip(wasm).map(|(js, wasm)| {
        // Debug text of a path of ours is a valid script string: visible ASCII, quotes escaped.
        let script = WAKE.replace("JS", &format!("{js:?}")).replace("WASM", &format!("{wasm:?}"));
        view! {
            <link rel="modulepreload" href=js nonce=nonce.clone()/>
            <link rel="preload" href=wasm r#as="fetch" r#type="application/wasm" crossorigin=""/>
            <script r#type="module" nonce=nonce>{script}</script>
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_theme_of_the_url_wins_over_the_cookie() {
        assert_eq!(Theme::of("", ["a=1; theme=dark"].into_iter()), Some(Theme::Dark));
        assert_eq!(Theme::of("x=1&theme=light", ["theme=dark"].into_iter()), Some(Theme::Light));
        assert_eq!(Theme::of("theme=system", ["theme=dark"].into_iter()), None);
        assert_eq!(Theme::of("", ["theme=neon", "other=dark"].into_iter()), None);
    }
}
