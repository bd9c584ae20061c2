"""A customer-support agent of an outdoor shop, as a LangGraph graph."""
