//! The operations at the address of one agent, which new tasks get. An existing context keeps its agent.

use rejoin_http::authorization::{Operation, routes};
use utoipa::openapi::Required;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::{Object, Type};

use super::state::{A2aState, Routes};
use super::{AGENT_ROUTE, PATH, rpc};

/// An operation, and its id and summary at an agent's address.
type Shared = ([Operation<A2aState>; 1], &'static str, &'static str);

/// The operations that both addresses have.
fn shared() -> Vec<Shared> {
    vec![
        (
            routes!(rpc::call),
            "call_agent",
            "Call a method of A2A by JSON-RPC, at an agent's address",
        ),
        (
            routes!(super::send_message),
            "send_message_to_agent",
            "Send a message to an agent by A2A, and get the task when it has ended or waits for its client",
        ),
        (
            routes!(super::send_streaming_message),
            "send_streaming_message_to_agent",
            "Send a message to an agent by A2A, and stream the task and its updates",
        ),
        (
            routes!(super::list_tasks),
            "list_tasks_at_agent",
            "List the caller's tasks of A2A, of all agents",
        ),
        (
            routes!(super::get_task),
            "get_task_at_agent",
            "Get a task of A2A, at an agent's address",
        ),
        (
            routes!(super::act_on_task),
            "act_on_task_at_agent",
            "Cancel a task of A2A, or stream its updates, at an agent's address",
        ),
        (
            routes!(super::list_push_configs),
            "list_push_configs_at_agent",
            "List the push notification configs of a task of A2A, at an agent's address",
        ),
        (
            routes!(super::create_push_config),
            "create_push_config_at_agent",
            "Create a push notification config of a task of A2A, at an agent's address",
        ),
        (
            routes!(super::get_push_config),
            "get_push_config_at_agent",
            "Get a push notification config of a task of A2A, at an agent's address",
        ),
        (
            routes!(super::delete_push_config),
            "delete_push_config_at_agent",
            "Delete a push notification config of a task of A2A, at an agent's address",
        ),
        (
            routes!(super::extended_card),
            "extended_card_of_agent",
            "Get the agent card of A2A of one agent that the caller may choose",
        ),
    ]
}

/// The operations at both addresses.
pub(super) fn routes() -> Routes {
    shared()
        .into_iter()
        .fold(Routes::new(), |routes, ([own], id, summary)| {
            let of_agent = own.again((PATH, AGENT_ROUTE), id, summary, agent());
            routes.routes([own, of_agent])
        })
}

/// The agent, in the path.
fn agent() -> Parameter {
    ParameterBuilder::new()
        .name("agent")
        .parameter_in(ParameterIn::Path)
        .required(Required::True)
        .description(Some("The id or name of an agent definition, for new contexts"))
        .schema(Some(Object::with_type(Type::String)))
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operation_is_at_both_addresses() {
        let routes = routes();
        let paths: Vec<&str> = routes.table().iter().map(|(path, _, _)| path).collect();
        for path in &paths {
            let is_of_agent = path.starts_with(AGENT_ROUTE);
            let other = if is_of_agent {
                path.replacen(AGENT_ROUTE, PATH, 1)
            } else {
                path.replacen(PATH, AGENT_ROUTE, 1)
            };
            assert!(paths.contains(&other.as_str()), "{other} is missing");
        }
        assert_eq!(paths.len(), 2 * shared().len());
    }
}
