//! The switch between light and dark.

use leptos::prelude::*;

use crate::error::AppError;
use crate::session::{Visit, local_path};
use crate::shell::Theme;

/// Keeps the choice in a cookie for a year; anything but `light` and `dark` leaves it to the system.
#[server(prefix = "/api", endpoint = "set_theme")]
pub async fn set_theme(
    #[server(default)] theme: String,
    #[server(default)] back: String,
) -> Result<(), AppError> {
    let visit = Visit::begin()?;
    let secure = if visit.is_https() { "; Secure" } else { "" };
    let cookie = match Theme::parse(&theme) {
        Some(theme) => {
            format!("theme={}; Path=/; Max-Age=31536000; SameSite=Lax; HttpOnly{secure}", theme.as_str())
        }
        None => format!("theme=; Path=/; Max-Age=0; SameSite=Lax; HttpOnly{secure}"),
    };
    visit.append_cookie(&cookie);
    if visit.wants_html() {
        visit.redirect(local_path(&back));
    }
    Ok(())
}
