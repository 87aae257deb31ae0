//! The API description, made from the code: OpenAPI 3.1 at `/v1/openapi.json`.
//!
//! Operations describe what is their own. What all of them share (the key, the problems, the idempotency
//! key of writes) is added here, so that no operation can leave it out.

use std::sync::LazyLock;

use axum::body::Body;
use axum::http::{HeaderValue, Response, header};
use utoipa::openapi::path::{HttpMethod, Operation, Parameter, ParameterBuilder, ParameterIn, PathItem};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{ContentBuilder, Ref, RefOr, Required, ResponseBuilder};
use utoipa::{Modify, OpenApi};

use super::{accounts, adjustments, batch, charges, entries, grants, holds, jobs, test_clock};
use crate::http::problem::{FieldError, ProblemShape};

#[derive(OpenApi)]
#[openapi(
    info(title = "Daybook", version = "1", description = "Prepaid credits: accounts, grants, charges, holds and the journal of all of it."),
    paths(
        accounts::create, accounts::index, accounts::show, accounts::balance,
        grants::create, grants::index, grants::void, grants::extend, grants::claw_back, grants::restore,
        charges::create,
        holds::create, holds::index, holds::show, holds::renew, holds::settle, holds::release, holds::reverse,
        entries::index, entries::show, entries::refund,
        adjustments::create,
        jobs::started, jobs::completed, jobs::failed,
        batch::create,
        test_clock::set,
        serve,
    ),
    components(schemas(ProblemShape, FieldError)),
    modifiers(&Common),
    tags(
        (name = "accounts", description = "Who has credits, and how many."),
        (name = "grants", description = "Credits that are put in."),
        (name = "usage", description = "Charges and holds."),
        (name = "entries", description = "The journal."),
        (name = "adjustments", description = "Corrections by hand."),
        (name = "jobs", description = "What the caller's jobs have come to."),
        (name = "batch", description = "Many commands in one request."),
        (name = "description", description = "This description."),
    )
)]
pub struct Description;

/// The whole description.
pub fn description() -> utoipa::openapi::OpenApi {
    Description::openapi()
}

static TEXT: LazyLock<String> = LazyLock::new(|| description().to_json().unwrap_or_default());

/// This description.
#[utoipa::path(
    get, path = "/v1/openapi.json", tag = "description",
    responses((status = 200, description = "OpenAPI 3.1.", body = Object))
)]
pub async fn serve() -> Response<Body> {
    let mut response = Response::new(Body::from(TEXT.as_str()));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

struct Common;

impl Modify for Common {
    fn modify(&self, openapi: &mut utoipa::openapi::OpenApi) {
        let bearer = HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .description(Some("An API key, `dbk_…`."))
            .build();
        let components = openapi.components.get_or_insert_default();
        components.add_security_scheme("api_key", SecurityScheme::Http(bearer));
        for (path, item) in &mut openapi.paths.paths {
            for (method, operation) in operations(item) {
                if path != "/v1/openapi.json" {
                    add_common(path, &method, operation);
                }
            }
        }
    }
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = (HttpMethod, &mut Operation)> {
    let PathItem { get, post, put, .. } = item;
    let pairs = [(HttpMethod::Get, get), (HttpMethod::Post, post), (HttpMethod::Put, put)];
    pairs.into_iter().filter_map(|(method, operation)| Some((method, operation.as_mut()?)))
}

fn add_common(path: &str, method: &HttpMethod, operation: &mut Operation) {
    operation.security = Some(vec![SecurityRequirement::new("api_key", Vec::<String>::new())]);
    for (status, description) in
        [("4XX", "Refused. Nothing was posted."), ("5XX", "Not answered. The same key may be used again.")]
    {
        let content =
            ContentBuilder::new().schema(Some(RefOr::Ref(Ref::from_schema_name("Problem")))).build();
        let response = ResponseBuilder::new()
            .description(description)
            .content("application/problem+json", content)
            .build();
        operation.responses.responses.insert(status.to_owned(), response.into());
    }
    for parameter in operation.parameters.iter_mut().flatten() {
        if let RefOr::T(parameter) = parameter
            && parameter.name == "account"
        {
            parameter.description =
                Some("The account's id, or `ref:` and its own reference, percent-encoded.".to_owned());
        }
    }
    if *method == HttpMethod::Post && path != "/v1/batch" {
        operation.parameters.get_or_insert_default().push(RefOr::T(idempotency_key()));
    }
}

fn idempotency_key() -> Parameter {
    let schema = ObjectBuilder::new()
        .schema_type(Type::String)
        .min_length(Some(1))
        .max_length(Some(255))
        .pattern(Some("^[!-~]+$"));
    ParameterBuilder::new()
        .name("Idempotency-Key")
        .parameter_in(ParameterIn::Header)
        .required(Required::True)
        .description(Some(
            "The caller's own key for this request, of visible ASCII. A repeated request has the same one.",
        ))
        .schema(Some(schema))
        .build()
}
