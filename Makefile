# Everything from a bare Debian 12 or Ubuntu 24.04 with git and make: each target installs what it needs, once.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: run test repl watch wireshark bench lint format clean distclean conformance help root

PYTHON := .venv/bin/python
PACKAGES := p4switch codec endpoint controller topologies wireshark bench ptf_tests tests

# What `make run` takes; see `make help`.
TOPO ?= planes,8,2
SCENARIO ?=
SCRIPT ?=
PROFILE ?=
P4_TARGET ?= p4switch
PCAP ?=
LINKS ?=
ARGS ?=
SWITCH ?=
export TOPO SCENARIO SCRIPT PROFILE P4_TARGET PCAP LINKS
export ETHLINK_STARTED := $(shell date +%s.%N)

run: root .venv/.run-ready
	@$(PYTHON) -m topologies $(ARGS)

test: root .venv/.test-ready .venv-repl/.ready
	@$(PYTHON) -m pytest $(PYTEST_ARGS)

repl: root .venv/.run-ready .venv-repl/.ready
	@$(PYTHON) -m controller.repl $(SWITCH)

watch: root .venv/.run-ready
	@$(PYTHON) -m controller watch $(SWITCH) $(ARGS)

wireshark: .venv/.wireshark-ready
	@$(PYTHON) -m wireshark

bench: root .venv/.test-ready
	@$(PYTHON) -m bench $(ARGS)

lint: .venv/.lint-ready
	@$(PYTHON) -m ruff format --check .
	@$(PYTHON) -m ruff check .
	@$(PYTHON) -m mypy $(PACKAGES)

format: .venv/.lint-ready
	@$(PYTHON) -m ruff format .
	@$(PYTHON) -m ruff check --fix .

conformance: root .venv/.test-ready
	@$(PYTHON) -m ptf_tests.conformance $(CONFORMANCE_ARGS)

clean:
	rm -rf build .pytest_cache .mypy_cache .ruff_cache
	find . -name __pycache__ -not -path './.venv*' -prune -exec rm -rf {} +

distclean: clean
	rm -rf .venv .venv-repl ethlink.egg-info

help:
	@echo "make run          a whole fabric: switches, controller, GPUs, verified traffic, a summary, then the Mininet prompt"
	@echo "                    TOPO=planes,GPUS,PLANES | leafspine,GPUS,LEAVES,SPINES    (now $(TOPO))"
	@echo "                    SCENARIO=ping | random | permutation    (default: ping, then random)"
	@echo "                    SCENARIO=incast | all-to-all | hotspot | slow-drain    with credits and without, side by side"
	@echo "                    SCENARIO=training   what parallel training exchanges (collectives), every byte checked:"
	@echo "                    PROFILE=dp2-tp4 | moe | pp4-dp2 | my.yaml    data, tensor, pipeline, expert parallelism"
	@echo "                    SCENARIO=failover    cables cut and restored under load: how fast everybody moves, what is lost"
	@echo "                    SCENARIO=bad-link    links that lose frames, with link-layer retry and without, side by side"
	@echo "                    SCRIPT=my.py        run a program of yours on every GPU instead"
	@echo "                    P4_TARGET=bmv2      the same program on BMv2, where p4c and simple_switch_grpc are installed"
	@echo "                    LINKS=managed       links that are brought up and have credits: nothing is dropped"
	@echo "                                        (with LINKS=open or managed, incast and all-to-all are plain patterns)"
	@echo "                    ARGS='--count 100 --semantics rdma --size 100000'  options of the traffic; ARGS=--help lists all"
	@echo "                    PCAP=1              capture every switch port under build/run/pcap"
	@echo "make repl         live table edits on the running fabric, from a second terminal (SWITCH=s2 for another switch)"
	@echo "make watch        the credits of the running fabric's managed links, live, from a second terminal (SWITCH=s2);"
	@echo "                    ARGS=--llr: all of link-layer retry, a column per port"
	@echo "                  .venv/bin/python -m controller llr    which links retry, and why; llr on|off|auto s1:3 by hand"
	@echo "make wireshark    EthLink in Wireshark and tshark: installs the dissector for the user who calls it"
	@echo "make test         unit, integration and packet (PTF) tests; PYTEST_ARGS=tests/codec for a part"
	@echo "make bench        switch, RDMA by size, all-reduce by size and GPUs, payload of wire bytes, compile times, memory;"
	@echo "                    ARGS='rdma collectives' for some of them; tables, and plots in build/bench"
	@echo "make lint         formatting, lint, types (make format repairs the first two)"
	@echo "make conformance  the field's cases for credits (CBFC), retry (LLR) and the header, a record each in build/conformance"
	@echo "                    CONFORMANCE_ARGS='--case CBFC-04 --quick'    P4_TARGET=bmv2"
	@echo "make clean        remove what was built; make distclean removes the Python environments too"

root:
	@if [ "$$(id -u)" -ne 0 ]; then \
	  echo "make $(MAKECMDGOALS) needs root, for network namespaces and raw sockets. Try: sudo make $(MAKECMDGOALS)" >&2; \
	  exit 1; \
	fi

.venv/.run-ready .venv/.test-ready .venv/.lint-ready .venv/.wireshark-ready: .venv/.%-ready: pyproject.toml scripts/bootstrap.sh
	@scripts/bootstrap.sh $*

.venv-repl/.ready: scripts/bootstrap.sh
	@scripts/bootstrap.sh repl
