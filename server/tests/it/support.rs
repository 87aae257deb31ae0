//! A server on a database of its own, and requests to it.

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode};
use backoffice::access::{NewKey, NewPassword, NewUser, Role, Scope, User};
use chrono::{DateTime, Utc};
use ledger::ids::AccountId;
use ledger::poster::Options;
use ledger::{APP_ROLE, Database, Ledger, MIGRATOR};
use serde_json::{Value, json};
use server::config::{Config, Flags, Sources};
use server::serve::router;
use server::state::{AppState, machine_now};
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use tower::ServiceExt;

pub const PASSWORD: &str = "seven blue kettles";

/// A running server without a socket.
pub struct Daybook {
    pub router: Router,
    pub state: AppState,
    /// An API key with every scope, of an admin.
    pub key: String,
    name: String,
}

pub struct Reply {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub text: String,
}

impl Reply {
    /// The body; null if it is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_default()
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// Asserts the status and gives the body.
    pub fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status.as_u16(), status, "{}", self.text);
        self.json()
    }

    /// Asserts a whole problem document of this name.
    pub fn problem(&self, name: &str) -> Value {
        let body = self.json();
        assert_eq!(body["type"], format!("/problems/{name}"), "{} {}", self.status, self.text);
        assert_eq!(self.header("content-type"), "application/problem+json");
        assert_eq!(body["status"], self.status.as_u16());
        for field in ["title", "detail", "request_id"] {
            assert!(body[field].as_str().is_some_and(|text| !text.is_empty()), "{field}: {}", self.text);
        }
        assert_eq!(self.header("x-request-id"), body["request_id"].as_str().unwrap());
        body
    }
}

fn admin_options() -> PgConnectOptions {
    std::env::var("DATABASE_URL").expect("DATABASE_URL names a Postgres for tests").parse().unwrap()
}

impl Daybook {
    pub async fn start() -> Daybook {
        Daybook::with(Flags::default(), &[]).await
    }

    pub async fn with(flags: Flags, environment: &[(&str, &str)]) -> Daybook {
        let name =
            format!("daybook_it_{}", uuid::Uuid::new_v7(uuid::Timestamp::now(uuid::NoContext)).simple());
        let mut admin = PgConnection::connect_with(&admin_options()).await.unwrap();
        admin.execute(AssertSqlSafe(format!("create database {name}"))).await.unwrap();
        let options = admin_options().database(&name);
        let mut owner = PgConnection::connect_with(&options).await.unwrap();
        MIGRATOR.run(&mut owner).await.unwrap();
        owner.close().await.unwrap();

        let environment =
            environment.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        let config = Config::load(Sources { file: None, environment, flags }).unwrap();
        let database = Database { options, role: APP_ROLE.to_owned() };
        let pool = database.pool(4);
        let ledger = Ledger::start(
            pool.clone(),
            &database,
            Options { lanes: 1, aside_connections: 1, ..Options::default() },
        );
        let state = AppState::new(config, pool, ledger);
        let mut daybook = Daybook { router: router(state.clone()), state, key: String::new(), name };
        let admin = daybook.user("admin@example.org", Role::Admin, &[]).await;
        daybook.key = daybook.new_key(&admin, &Scope::ALL).await;
        daybook
    }

    pub async fn user(&self, email: &str, role: Role, accounts: &[AccountId]) -> User {
        let password = NewPassword::Given(PASSWORD.to_owned());
        let new = NewUser { email: email.to_owned(), role, accounts: accounts.to_vec(), password };
        self.state.access.create_user(new, now()).await.unwrap().user
    }

    pub async fn new_key(&self, owner: &User, scopes: &[Scope]) -> String {
        let new =
            NewKey { name: "test".to_owned(), owner: owner.id, scopes: scopes.to_vec(), expires_at: None };
        self.state.access.create_key(new, now()).await.unwrap().bearer
    }

    pub async fn send(&self, request: Request<Body>) -> Reply {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = axum::body::to_bytes(body, 64 * 1024 * 1024).await.unwrap();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        Reply { status: parts.status, headers: parts.headers, text }
    }

    pub async fn get(&self, path: &str) -> Reply {
        self.send(self.request("GET", path).body(Body::empty()).unwrap()).await
    }

    /// A request with the key of all scopes.
    pub fn request(&self, method: &str, path: &str) -> axum::http::request::Builder {
        Request::builder().method(method).uri(path).header("authorization", format!("Bearer {}", self.key))
    }

    /// A write with an idempotency key.
    pub async fn post(&self, path: &str, key: &str, body: Value) -> Reply {
        self.post_text(path, key, body.to_string()).await
    }

    pub async fn post_text(&self, path: &str, key: &str, body: impl Into<Body>) -> Reply {
        let request = self
            .request("POST", path)
            .header("idempotency-key", key)
            .header("content-type", "application/json");
        self.send(request.body(body.into()).unwrap()).await
    }

    /// Signs in as a browser without script does; the cookie of the session.
    pub async fn signed_in(&self, email: &str) -> String {
        let form = Request::post("/api/sign_in")
            .header("accept", "text/html")
            .header("content-type", "application/x-www-form-urlencoded")
            .body(Body::from(format!("email={}&password={}", encoded(email), encoded(PASSWORD))));
        let reply = self.send(form.unwrap()).await;
        assert_eq!((reply.status.as_u16(), reply.header("location")), (302, "/"), "{}", reply.text);
        reply.header("set-cookie").split(';').next().unwrap().to_owned()
    }

    /// What somebody with this session sees.
    pub async fn visit(&self, cookie: &str, path: &str) -> Reply {
        self.send(Request::get(path).header("cookie", cookie).body(Body::empty()).unwrap()).await
    }

    /// Sets the clock of a rehearsal instance.
    pub async fn set_clock(&self, now: &str) {
        let request = self.request("PUT", "/v1/test-clock").header("content-type", "application/json");
        self.send(request.body(json!({"now": now}).to_string().into()).unwrap()).await.expect(200);
    }

    /// A new account with a paid grant that never ends. Its id, and its path.
    pub async fn account(&self, external_ref: &str, credits: &str) -> (AccountId, String) {
        let account =
            self.post("/v1/accounts", external_ref, json!({"external_ref": external_ref})).await.expect(201);
        let id = account["id"].as_str().unwrap();
        let path = format!("/v1/accounts/{id}");
        if credits != "0" {
            let grant = json!({"amount": credits, "pool": "paid", "expires_at": null});
            self.post(&format!("{path}/grants"), "first-grant", grant).await.expect(201);
        }
        (id.parse().unwrap(), path)
    }

    pub async fn available(&self, account: &str) -> String {
        let balance = self.get(&format!("{account}/balance")).await.expect(200);
        balance["available"].as_str().unwrap().to_owned()
    }

    /// How many entries an account has.
    pub async fn entries(&self, account: &str) -> usize {
        let list = self.get(&format!("{account}/entries?limit=200")).await.expect(200);
        list["data"].as_array().unwrap().len()
    }
}

impl Drop for Daybook {
    /// Takes the database away. What is left after a panic does no harm to the next run.
    fn drop(&mut self) {
        let name = self.name.clone();
        let dropped = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let mut admin =
                    PgConnection::connect_with(&admin_options()).await.map_err(std::io::Error::other)?;
                let statement = format!("drop database if exists {name} with (force)");
                admin.execute(AssertSqlSafe(statement)).await.map_err(std::io::Error::other)?;
                Ok::<(), std::io::Error>(())
            })
        });
        drop(dropped.join());
    }
}

pub fn now() -> DateTime<Utc> {
    machine_now()
}

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// The texts of one field in a list.
pub fn column(list: &Value, field: &str) -> Vec<String> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    list.as_array().unwrap().iter().map(|row| text(&row[field])).collect()
}
