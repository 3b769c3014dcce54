//! A browser without a screen: it keeps the cookies of two sites, and each test follows the redirects.

use std::collections::{BTreeMap, HashMap};

use reqwest::header::{COOKIE, LOCATION, SET_COOKIE};
use reqwest::redirect::Policy;
use reqwest::{Method, Response, StatusCode};
use serde_json::Value;
use url::Url;

use rejoin_tests::client::answer;

type Jar = BTreeMap<String, String>;

pub(super) struct Browser {
    http: reqwest::Client,
    /// The API's URL.
    api: String,
    ours: Jar,
    /// The identity provider's cookies.
    theirs: Jar,
}

impl Browser {
    pub(super) fn new(api: String) -> Self {
        let http = rejoin_egress::tls::http_client().redirect(Policy::none()).build();
        Self {
            http: http.expect("a client"),
            api,
            ours: Jar::new(),
            theirs: Jar::new(),
        }
    }

    /// Returns a cookie of the API.
    pub(super) fn cookie(&self, name: &str) -> Option<&str> {
        self.ours.get(name).map(String::as_str)
    }

    /// Keeps the cookies of another browser, too.
    pub(super) fn takes_cookies_of(&mut self, other: &Self) {
        self.ours.extend(other.ours.clone());
    }

    fn is_ours(&self, url: &str) -> bool {
        url.starts_with(&self.api)
    }

    async fn request(&mut self, method: Method, url: &str, site: &str, body: Option<&Value>) -> Response {
        let is_ours = self.is_ours(url);
        let jar = if is_ours { &self.ours } else { &self.theirs };
        // A cookie with SameSite=Strict is not sent from another site.
        let sent = jar
            .iter()
            .filter(|(name, _)| site != "cross-site" || *name != "rejoin_session");
        let cookies: Vec<String> = sent.map(|(name, value)| format!("{name}={value}")).collect();
        let mut request = self.http.request(method.clone(), url).header("sec-fetch-site", site);
        if !cookies.is_empty() {
            request = request.header(COOKIE, cookies.join("; "));
        }
        if method != Method::GET {
            request = request.header("origin", &self.api);
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = request.send().await.expect("an answer");
        let set: Vec<String> = response
            .headers()
            .get_all(SET_COOKIE)
            .iter()
            .map(|value| value.to_str().expect("ASCII").to_owned())
            .collect();
        let jar = if is_ours { &mut self.ours } else { &mut self.theirs };
        for cookie in set {
            let pair = cookie.split(';').next().unwrap_or_default();
            let (name, value) = pair.split_once('=').expect("a cookie has a value");
            if value.is_empty() || cookie.contains("Max-Age=0") {
                jar.remove(name);
            } else {
                jar.insert(name.to_owned(), value.to_owned());
            }
        }
        response
    }

    /// Navigates, from another site or the address bar.
    pub(super) async fn navigate(&mut self, url: &str, site: &str) -> Response {
        self.request(Method::GET, url, site, None).await
    }

    /// Posts a form of the provider's page.
    pub(super) async fn submit(&mut self, url: &str, form: &[(&str, &str)]) -> Response {
        let body = url::form_urlencoded::Serializer::new(String::new())
            .extend_pairs(form)
            .finish();
        let cookies: Vec<String> = self
            .theirs
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let request = self
            .http
            .post(url)
            .header("content-type", "application/x-www-form-urlencoded")
            .header(COOKIE, cookies.join("; "));
        request.body(body).send().await.expect("an answer")
    }

    /// Sends a request of our page.
    pub(super) async fn send(&mut self, method: Method, path: &str, body: Option<Value>) -> (StatusCode, Value) {
        let url = format!("{}{path}", self.api);
        answer(self.request(method, &url, "same-origin", body.as_ref()).await).await
    }

    /// Begins a sign-in, and returns where it leads.
    pub(super) async fn start(&mut self, query: &str) -> String {
        let url = format!("{}/api/sign-in/sso{query}", self.api);
        location(&self.navigate(&url, "same-origin").await)
    }

    /// Returns from the provider, and returns where that leads.
    pub(super) async fn come_back(&mut self, url: &str) -> String {
        location(&self.navigate(url, "cross-site").await)
    }

    /// Returns the caller, if the browser is signed in.
    pub(super) async fn me(&mut self) -> Option<Value> {
        let (status, me) = self.send(Method::GET, "/api/me", None).await;
        (status == StatusCode::OK).then_some(me)
    }

    /// Signs in at the provider of `sso_provider`, as this user, and returns the address to which it leads back.
    pub(super) async fn authorize(&mut self, url: &str, user: &str) -> String {
        let mut url: Url = url.parse().expect("a URL");
        for _ in 0..10 {
            if self.is_ours(url.as_str()) {
                return url.into();
            }
            if url.path().starts_with("/interaction/") {
                url.query_pairs_mut().append_pair("user", user);
            }
            let response = self.navigate(url.as_str(), "cross-site").await;
            let status = response.status();
            let next = response
                .headers()
                .get(LOCATION)
                .map(|next| next.to_str().expect("ASCII").to_owned());
            let Some(next) = next else {
                panic!("{url} answered {status}: {}", response.text().await.unwrap_or_default());
            };
            url = url.join(&next).expect("a URL");
        }
        panic!("the provider leads in a circle");
    }
}

/// Returns where a response leads.
pub(super) fn location(response: &Response) -> String {
    assert_eq!(response.status(), StatusCode::SEE_OTHER);
    response.headers()[LOCATION].to_str().expect("ASCII").to_owned()
}

/// Returns the query of an address.
pub(super) fn query(url: &str) -> HashMap<String, String> {
    let url: Url = url.parse().expect("a URL");
    url.query_pairs().into_owned().collect()
}
