//! Keys, sign-in and sessions against the database.

use std::net::IpAddr;
use std::time::Duration;

use axum::http::Request;
use backoffice::access::session::{SessionDigest, USER_KEY};
use backoffice::access::{
    Access, AccessOptions, CreateUserError, NewPassword, NewUser, Role, Scope, SignInError,
};
use chrono::{DateTime, Utc};
use serde_json::{Map, json};
use server::config::Flags;
use server::session::PgSessionStore;
use tower_sessions::SessionStore;
use tower_sessions::session::{Id, Record};

use crate::support::{Daybook, PASSWORD, now};

#[tokio::test]
async fn a_revoked_key_is_refused_within_a_second_everywhere() {
    let daybook = Daybook::start().await;
    let elsewhere = Access::new(daybook.state.pool.clone(), AccessOptions::default());
    let here = &daybook.state.access;
    let key = here.check_key(&daybook.key, now()).await.unwrap();
    elsewhere.check_key(&daybook.key, now()).await.unwrap();
    assert!(here.revoke_key(key.id(), now()).await.unwrap());
    assert!(!here.revoke_key(key.id(), now()).await.unwrap());
    assert!(here.check_key(&daybook.key, now()).await.is_err(), "at once where it was revoked");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(elsewhere.check_key(&daybook.key, now()).await.is_err());
    daybook.get("/v1/accounts").await.problem("unauthenticated");
}

#[tokio::test]
async fn a_key_ends_with_its_time_and_with_its_owner() {
    let daybook = Daybook::start().await;
    let access = &daybook.state.access;
    let owner = daybook.user("owner@example.org", Role::Admin, &[]).await;
    let key = daybook.new_key(&owner, &[Scope::Read]).await;
    let ends = now() + chrono::Duration::minutes(5);
    let new = backoffice::access::NewKey {
        name: "short".to_owned(),
        owner: owner.id,
        scopes: vec![Scope::Read],
        expires_at: Some(ends),
    };
    let short = access.create_key(new, now()).await.unwrap();
    assert!(access.check_key(&short.bearer, ends - chrono::Duration::seconds(1)).await.is_ok());
    assert!(access.check_key(&short.bearer, ends).await.is_err());
    assert!(access.check_key(&key, now()).await.is_ok());
    access.set_disabled(owner.id, true, now()).await.unwrap();
    assert!(access.check_key(&key, now()).await.is_err());

    let listed = access.keys(Some(owner.id)).await.unwrap();
    assert_eq!(listed.len(), 2);
    let shown = format!("{listed:?}");
    assert!(!shown.contains(&short.bearer[13..56]), "a list knows no secret");
}

#[tokio::test]
async fn signing_in_takes_the_password_and_slows_down_after_five_failures() {
    let daybook = Daybook::start().await;
    let access = &daybook.state.access;
    let user = daybook.user("Ada@Example.org", Role::Customer, &[]).await;
    let address: Option<IpAddr> = Some("192.0.2.1".parse().unwrap());
    let start = now();
    let found = access.sign_in(" ada@example.ORG", PASSWORD, address, start).await.unwrap();
    assert_eq!((found.id, found.email.as_str()), (user.id, "ada@example.org"));

    for email in ["ada@example.org", "nobody@example.org"] {
        let elsewhere: Option<IpAddr> =
            Some(if email.starts_with('a') { "192.0.2.2" } else { "192.0.2.3" }.parse().unwrap());
        for _ in 0..5 {
            let refused = access.sign_in(email, "wrong horse battery", elsewhere, start).await.unwrap_err();
            assert!(matches!(refused, SignInError::WrongCredentials), "{refused}");
        }
        let throttled = access.sign_in(email, PASSWORD, elsewhere, start).await.unwrap_err();
        assert!(matches!(throttled, SignInError::Throttled { retry_after_s: 1..=6 }), "{throttled}");
    }
    let later = start + chrono::Duration::seconds(6);
    access.sign_in("ada@example.org", PASSWORD, address, later).await.unwrap();
    access.sign_in("ada@example.org", PASSWORD, address, later).await.unwrap();
    // Neighbours behind the same address are not kept out by it, unless it fails far more often.
    let other = daybook.user("eve@example.org", Role::Customer, &[]).await;
    let there: Option<IpAddr> = Some("192.0.2.3".parse().unwrap());
    access.sign_in("eve@example.org", PASSWORD, there, start).await.unwrap();
    sqlx::query("update sign_in_throttles set failures = 199 where failures = 5 and subject <> all (select subject from sign_in_throttles where blocked_until is not null)")
        .execute(&daybook.state.pool)
        .await
        .unwrap();
    assert!(access.sign_in("mallory@example.org", "wrong horse battery", there, start).await.is_err());
    let from_there = access.sign_in("eve@example.org", PASSWORD, there, start).await;
    assert!(matches!(from_there, Err(SignInError::Throttled { retry_after_s: 1..=6 })));
    access.set_disabled(other.id, true, later).await.unwrap();
    let disabled = access.sign_in("eve@example.org", PASSWORD, None, later).await;
    assert!(matches!(disabled, Err(SignInError::WrongCredentials)));
    assert!(matches!(
        access.sign_in("not an address", PASSWORD, None, later).await,
        Err(SignInError::WrongCredentials)
    ));
}

#[tokio::test]
async fn a_user_is_made_once_and_a_generated_password_works() {
    let daybook = Daybook::start().await;
    let access = &daybook.state.access;
    let new = || NewUser {
        email: "ada@example.org".to_owned(),
        role: Role::Finance,
        accounts: Vec::new(),
        password: NewPassword::Generated,
    };
    let created = access.create_user(new(), now()).await.unwrap();
    let password = created.generated_password.unwrap();
    assert_eq!(access.sign_in("ada@example.org", &password, None, now()).await.unwrap().role, Role::Finance);
    assert!(matches!(access.create_user(new(), now()).await, Err(CreateUserError::EmailTaken)));
    let stored: String =
        sqlx::query_scalar("select password_hash from users where email = 'ada@example.org'")
            .fetch_one(&daybook.state.pool)
            .await
            .unwrap();
    assert!(stored.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"));
    let changed = access
        .set_password(created.user.id, NewPassword::Given("nine green teapots".to_owned()))
        .await
        .unwrap();
    assert_eq!(changed, None);
    assert!(access.sign_in("ada@example.org", &password, None, now()).await.is_err());
    assert!(access.sign_in("ada@example.org", "nine green teapots", None, now()).await.is_ok());
}

#[tokio::test]
async fn sessions_are_kept_listed_and_ended() {
    let daybook = Daybook::start().await;
    let access = daybook.state.access.clone();
    let store = PgSessionStore::new(access.clone());
    let user = daybook.user("ada@example.org", Role::Customer, &[]).await;
    let data = [(USER_KEY.to_owned(), json!(user.id)), ("address".to_owned(), json!("192.0.2.1"))];
    let mut record =
        Record { id: Id(7), data: data.into_iter().collect(), expiry_date: time::OffsetDateTime::UNIX_EPOCH };
    store.create(&mut record).await.unwrap();
    let mut twin = record.clone();
    store.create(&mut twin).await.unwrap();
    assert_ne!(twin.id, Id(7), "a taken id is not given out again");
    let loaded = store.load(&Id(7)).await.unwrap().unwrap();
    assert_eq!(loaded.data, record.data);
    assert_eq!(access.sessions(user.id, now()).await.unwrap().len(), 2);
    assert_eq!(access.sessions(user.id, now()).await.unwrap()[0].address.as_deref(), Some("192.0.2.1"));

    let digest = SessionDigest::of(&7_i128.to_le_bytes());
    assert!(
        access.load_session(&digest, now() + chrono::Duration::minutes(31)).await.unwrap().is_none(),
        "idle for too long"
    );
    assert!(access.end_session(user.id, &digest).await.unwrap());
    store.save(&record).await.unwrap();
    assert!(store.load(&Id(7)).await.unwrap().is_none(), "saving does not bring an ended session back");
    access.set_disabled(user.id, true, now()).await.unwrap();
    assert!(store.load(&twin.id).await.unwrap().is_none());

    access.create_session(&digest, &Map::new(), now() - chrono::Duration::hours(13)).await.unwrap();
    assert!(access.sweep(now()).await.unwrap() >= 1);
    store.delete(&Id(9)).await.unwrap();
}

#[tokio::test]
async fn a_busy_session_ends_after_twelve_hours() {
    let daybook = Daybook::start().await;
    let access = &daybook.state.access;
    let digest = SessionDigest::of(b"x");
    let start = now();
    assert!(access.create_session(&digest, &Map::new(), start).await.unwrap());
    for minutes in (20..720).step_by(20) {
        assert!(
            access.load_session(&digest, start + chrono::Duration::minutes(minutes)).await.unwrap().is_some(),
            "{minutes}"
        );
    }
    assert!(access.load_session(&digest, start + chrono::Duration::minutes(720)).await.unwrap().is_none());
}

#[tokio::test]
async fn a_throttled_fetch_is_told_when_to_come_again_by_the_machines_clock() {
    let daybook = Daybook::with(Flags { test_clock: true, ..Flags::default() }, &[]).await;
    daybook.set_clock("2026-01-01T00:00:00Z").await;
    daybook.user("ada@example.org", Role::Customer, &[]).await;
    let try_once = async || {
        let form = Request::post("/api/sign_in")
            .header("accept", "application/json")
            .header("content-type", "application/x-www-form-urlencoded")
            .body("email=ada%40example.org&password=wrong+horse+battery".into());
        daybook.send(form.unwrap()).await
    };
    for _ in 0..5 {
        assert_eq!(try_once().await.status, 401);
    }
    let throttled = try_once().await;
    assert_eq!(throttled.status, 429);
    let wait_s: u32 = throttled.header("retry-after").parse().unwrap();
    assert!((1..=6).contains(&wait_s), "{wait_s}");
    let counted: DateTime<Utc> = sqlx::query_scalar("select max(failed_at) from sign_in_throttles")
        .fetch_one(&daybook.state.pool)
        .await
        .unwrap();
    assert!(now() - counted < chrono::Duration::minutes(5), "a clock that stands still would never let go");
}

#[tokio::test]
async fn a_hash_of_an_older_cost_becomes_one_of_todays_when_its_owner_signs_in() {
    use argon2::password_hash::PasswordHasher;
    let daybook = Daybook::start().await;
    let user = daybook.user("ada@example.org", Role::Customer, &[]).await;
    let params = argon2::Params::new(8_192, 1, 1, None).unwrap();
    let older = argon2::Argon2::new(argon2::Algorithm::Argon2id, argon2::Version::V0x13, params);
    let older: argon2::password_hash::phc::PasswordHash =
        older.hash_password_with_salt(PASSWORD.as_bytes(), b"sixteen bytes it").unwrap();
    let pool = &daybook.state.pool;
    sqlx::query("update users set password_hash = $2 where id = $1")
        .bind(user.id.0)
        .bind(older.to_string())
        .execute(pool)
        .await
        .unwrap();
    let stored = async || -> String {
        let query = sqlx::query_scalar("select password_hash from users where id = $1").bind(user.id.0);
        query.fetch_one(pool).await.unwrap()
    };
    let access = &daybook.state.access;
    assert!(access.sign_in("ada@example.org", "wrong horse battery", None, now()).await.is_err());
    assert_eq!(stored().await, older.to_string(), "only the right password can be hashed anew");
    access.sign_in("ada@example.org", PASSWORD, None, now()).await.unwrap();
    let strong = stored().await;
    assert!(strong.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{strong}");
    access.sign_in("ada@example.org", PASSWORD, None, now()).await.unwrap();
    assert_eq!(stored().await, strong, "once is enough");
}

#[tokio::test]
async fn when_a_key_was_last_used_is_written_down_beside_the_requests() {
    let daybook = Daybook::start().await;
    let access = &daybook.state.access;
    let last_used = async || access.keys(None).await.unwrap()[0].last_used_at;
    assert_eq!(last_used().await, None);
    let used_at: DateTime<Utc> = "2026-12-01T10:00:00.5Z".parse().unwrap();
    access.check_key(&daybook.key, used_at).await.unwrap();
    access.check_key(&daybook.key, used_at - chrono::Duration::seconds(9)).await.unwrap();
    assert_eq!(last_used().await, None, "no request writes it");
    assert_eq!(access.record_key_uses().await.unwrap(), 1);
    assert_eq!(last_used().await, Some(used_at));
    assert_eq!(access.record_key_uses().await.unwrap(), 0, "nothing new");
    let wrong = format!("{}0000000", &daybook.key[..daybook.key.len() - 7]);
    assert!(access.check_key(&wrong, used_at + chrono::Duration::seconds(5)).await.is_err());
    assert_eq!(access.record_key_uses().await.unwrap(), 0, "a wrong key is no use");

    let elsewhere = Access::new(daybook.state.pool.clone(), AccessOptions::default());
    elsewhere.check_key(&daybook.key, used_at - chrono::Duration::minutes(1)).await.unwrap();
    assert_eq!(elsewhere.record_key_uses().await.unwrap(), 1);
    assert_eq!(last_used().await, Some(used_at), "an earlier use elsewhere undoes nothing");
}
