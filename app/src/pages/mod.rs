//! Pages, by role. A page takes its parameters from the address, asks for its rights and shows a component; it
//! holds no SQL and no rule.

pub mod customer;
mod home_page;
mod login_page;
mod not_found_page;
pub mod staff;

pub use home_page::HomePage;
pub use login_page::LoginPage;
pub use not_found_page::NotFoundPage;

use leptos::prelude::*;
use leptos_router::hooks::use_params_map;

use crate::error::AppError;

/// A part of the path. What cannot be read is not there.
fn parameter<T: std::str::FromStr>(name: &str) -> Result<T, AppError> {
    use_params_map()
        .with_untracked(|map| map.get(name))
        .and_then(|text| text.parse().ok())
        .ok_or(AppError::NotFound)
}
