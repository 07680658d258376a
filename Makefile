# SPDX-License-Identifier: GPL-2.0
#
# Thin: each target is the script of its name.

.DEFAULT_GOAL := help

VERBS := help doctor deps base apply unapply check build boot test stress bench cost \
	size bisect export deb

.PHONY: $(VERBS)
$(VERBS):
	@scripts/$@

# What is no target; of a directory make would say that there is nothing to be done.
DIRECTORIES := Documentation configs patches scripts tests

.PHONY: $(DIRECTORIES)
$(DIRECTORIES) .DEFAULT:
	@echo "make: there is no target $@" >&2
	@echo "  cure: make help lists them" >&2
	@exit 2
