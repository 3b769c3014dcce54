//! A project's prices of models, where they differ from the catalogue. Used by budgets of run trees.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use rejoin_http::audit::record;
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Admin, Caller};
use rejoin_http::extract::{Body, Params, Segments};
use rejoin_http::problem::{BodyRefused, Problem, Refused};
use rejoin_identity::audit::Action;
use rejoin_models::{Model, Price};
use rejoin_runs::prices::{self, ModelPrice};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use crate::state::{AppState, Routes};

pub fn routes() -> Routes {
    Routes::new().routes(routes!(list, put, delete))
}

/// The price of a model
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PriceBody {
    /// `provider:model`, or a glob
    pub model: String,
    /// Dollars per million input tokens
    pub input_usd: f64,
    /// Dollars per million output tokens
    pub output_usd: f64,
    /// Dollars per million tokens read from the provider's cache; absent for a project's own price, which applies to
    /// all input alike
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cached_usd: Option<f64>,
    /// Dollars per million tokens written to the provider's cache
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write_usd: Option<f64>,
    /// Whether it is from the catalogue; a project's own prices take precedence
    pub built_in: bool,
}

impl PriceBody {
    fn of_workspace(price: ModelPrice) -> Self {
        Self {
            model: price.model,
            input_usd: price.input_usd,
            output_usd: price.output_usd,
            cached_usd: None,
            cache_write_usd: None,
            built_in: false,
        }
    }

    fn of_catalogue(model: &Model, price: Price) -> Self {
        Self {
            model: model.name.clone(),
            input_usd: price.input_usd,
            output_usd: price.output_usd,
            cached_usd: Some(price.cached_usd),
            cache_write_usd: Some(price.cache_write_usd),
            built_in: true,
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Prices {
    pub items: Vec<PriceBody>,
}

/// A price to set
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PriceRequest {
    /// `provider:model`, as in the `meta` of its runs, or a glob such as `openai:gpt-6*`
    #[schema(max_length = 200, min_length = 1)]
    pub model: String,
    /// Dollars per million input tokens
    pub input_usd: f64,
    /// Dollars per million output tokens
    pub output_usd: f64,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Which {
    /// The model for which the price was set
    pub model: String,
}

/// List the prices of models
///
/// First the project's own, then the catalogue's prices of available models. If several of the project's prices match a
/// model, the one with the longest name applies; if none does, the catalogue's applies.
#[utoipa::path(get, path = "/api/admin/projects/{p}/model-prices", tag = "model prices",
    params(("p" = Uuid, Path, description = "The project")),
    responses((status = 200, description = "All prices", body = Prices), Refused))]
async fn list(
    State(state): State<AppState>,
    caller: Caller<Admin>,
    Segments(workspace_id): Segments<Uuid>,
) -> Result<Json<Prices>, Problem> {
    caller.in_workspace(workspace_id)?;
    let own = prices::list(&mut *caller.begin(&state).await?, workspace_id).await?;
    let own = own.into_iter().map(PriceBody::of_workspace);
    let today = rejoin_models::today();
    let served = rejoin_models::catalogue()
        .all()
        .iter()
        .filter(|model| !model.is_retired(today));
    let listed = served.filter_map(|model| Some(PriceBody::of_catalogue(model, model.price(today)?)));
    Ok(Json(Prices {
        items: own.chain(listed).collect(),
    }))
}

/// Set the price of a model
///
/// It applies to runs that start or resume from now on; the cost of earlier calls is unchanged.
#[utoipa::path(put, path = "/api/admin/projects/{p}/model-prices", tag = "model prices", request_body = PriceRequest,
    params(("p" = Uuid, Path, description = "The project")),
    responses((status = 200, description = "The price", body = PriceBody),
        (status = 409, description = "The project has too many prices", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        Refused, BodyRefused))]
async fn put(
    State(state): State<AppState>,
    caller: Caller<Admin>,
    Segments(workspace_id): Segments<Uuid>,
    Body(request): Body<PriceRequest>,
) -> Result<Json<PriceBody>, Problem> {
    caller.in_workspace(workspace_id)?;
    let price = ModelPrice {
        model: request.model,
        input_usd: request.input_usd,
        output_usd: request.output_usd,
    };
    price
        .check()
        .map_err(|fault| Problem::bad_request("invalid_model_price", fault))?;
    let mut db = caller.begin(&state).await?;
    let there = prices::list(&mut *db, workspace_id).await?;
    if there.len() >= prices::MAX_PRICES && there.iter().all(|other| other.model != price.model) {
        let detail = format!("a project can have at most {} prices", prices::MAX_PRICES);
        return Err(Problem::conflict("too_many_model_prices", detail));
    }
    prices::put(&mut *db, workspace_id, &price).await?;
    let detail = json!({ "inputUsd": price.input_usd, "outputUsd": price.output_usd });
    record(&mut db, &caller, Action::ModelPriceSet, target(&price.model), detail).await?;
    db.commit().await?;
    Ok(Json(PriceBody::of_workspace(price)))
}

/// Delete one of the project's own prices
#[utoipa::path(delete, path = "/api/admin/projects/{p}/model-prices", tag = "model prices",
    params(Which, ("p" = Uuid, Path, description = "The project")),
    responses((status = 204, description = "Gone"), Refused))]
async fn delete(
    State(state): State<AppState>,
    caller: Caller<Admin>,
    Segments(workspace_id): Segments<Uuid>,
    Params(which): Params<Which>,
) -> Result<StatusCode, Problem> {
    caller.in_workspace(workspace_id)?;
    let mut db = caller.begin(&state).await?;
    if !prices::remove(&mut *db, workspace_id, &which.model).await? {
        return Err(Problem::not_found("model_price_not_found", "The price"));
    }
    record(
        &mut db,
        &caller,
        Action::ModelPriceRemoved,
        target(&which.model),
        json!({}),
    )
    .await?;
    db.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}

fn target(model: &str) -> String {
    format!("model_price:{model}")
}
