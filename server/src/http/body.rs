//! Bodies of requests, read whole: within a size and within a time, since a sender that never ends would hold a
//! connection for ever.

use std::time::Duration;

use axum::body::{Body, Bytes};

use super::problem::{Name, Problem};

pub async fn whole(body: Body, bytes_max: usize, wait: Duration) -> Result<Bytes, Problem> {
    match tokio::time::timeout(wait, axum::body::to_bytes(body, bytes_max)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(error)) if is_length_limit(&error) => Err(too_large(bytes_max)),
        Ok(Err(_)) => Err(Problem::new(Name::InvalidRequest, "The body did not arrive whole.")),
        Err(_) => {
            let detail = format!("The body did not arrive within {} seconds.", wait.as_secs());
            Err(Problem::new(Name::InvalidRequest, detail))
        }
    }
}

pub fn too_large(bytes_max: usize) -> Problem {
    Problem::new(Name::TooLarge, format!("The body has more than {bytes_max} bytes."))
}

fn is_length_limit(error: &axum::Error) -> bool {
    let source = std::error::Error::source(error);
    source.is_some_and(|source| source.to_string().contains("length limit"))
}
