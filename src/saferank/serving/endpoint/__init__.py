"""The parts of the endpoint: requests, rankers, log, metrics and the page."""
