//! What every unknown address shows, with status 404.

use leptos::prelude::*;

use crate::components::page::for_anyone;
use crate::error::AppError;

#[component]
pub fn NotFoundPage() -> impl IntoView {
    for_anyone(|_, _| async { Err(AppError::NotFound) })
}
