"""The help, the messages, the failures and the next step of a command."""
