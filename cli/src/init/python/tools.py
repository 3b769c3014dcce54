"""Tools of this program. `python tools.py` serves them to the agents of Rejoin."""

from pathlib import Path

from rejoin import CallContext, ToolFailure, Worker, tool

ORDERS = {"A-7": 12.50, "B-8": 99.90}


@tool(read_only=True)
def order_status(order: str) -> dict[str, object]:
    """Returns the price and the status of an order, such as A-7."""
    if order not in ORDERS:
        raise ToolFailure(f"There is no order {order}. Known orders: {', '.join(ORDERS)}.")
    return {"order": order, "price": ORDERS[order], "status": "shipped"}


@tool(durable=True)
def refund(order: str, call: CallContext) -> dict[str, object]:
    """Refunds an order, if the user agrees."""
    price = order_status(order)["price"]
    if call.ask_user(f"Refund {price} euros for {order}?", ["yes", "no"]) != "yes":
        return {"order": order, "status": "kept"}

    def pay() -> None:
        with Path("refunds.txt").open("a") as file:
            file.write(f"{order} {price}\n")

    # Recorded: it happens once, whatever happens to this program.
    call.step("pay", pay)
    return {"order": order, "status": "refunded"}


if __name__ == "__main__":
    Worker([order_status, refund]).run()
