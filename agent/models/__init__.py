"""The models the agent can ask: one small protocol and its adapters. The only place that knows the `openai` package.

protocol            what a model is asked and what it gives: ModelRequest → TextPiece* RoundEnd
chat_completions    the adapter for servers that speak OpenAI's chat completions
rehearsal           a deterministic server of our own that speaks it too, for when no model is configured
arguments           reading a tool call's arguments
loggers             keeping the packages below from logging anything
"""
