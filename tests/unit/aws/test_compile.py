"""Which candidates share one creating call of EC2, and every field of it, checked by botocore."""

import pytest
from botocore.validate import ParamValidator

from providers.adapters.aws import MANIFEST, demands, grouping, machines, region_facts, tagging
from providers.adapters.aws import compile as native
from providers.errors import NotEnabled, Unsupported
from providers.model.machine import Label, Setup
from providers.model.place import Scope
from providers.rehearsal.clouds.aws import wire
from tests.present import present
from tests.unit.aws.compile_rig import AROUND, TOKEN, A, B, C, candidate, order


def options(**given):
    return {"options": tuple(sorted(given.items()))}


def valid(operation, body) -> None:
    """Botocore accepts the body: names, types and required members."""
    report = ParamValidator().validate(
        body, wire.model("ec2").operation_model(operation).input_shape
    )
    assert not report.has_errors(), report.generate_report()


# Grouping


@pytest.mark.parametrize(
    ("candidates", "size"),
    [
        ([candidate(A), candidate(B), candidate(C)], 3),
        ([candidate(A), candidate(B, "p4d.24xlarge", micro_usd=30), candidate(C)], 3),
        ([candidate(A), candidate("use2-az1", region="us-east-2"), candidate(B)], 1),
        ([candidate(A), candidate(B, capacity="spot")], 1),
        (
            [
                candidate(A, capacity="spot"),
                candidate(B, capacity="spot"),
                candidate(C, capacity="spot", micro_usd=56_000_000),
            ],
            2,
        ),
        ([candidate(A, capacity="spot"), candidate(B, capacity="spot", entry=1)], 1),
        ([candidate(A, nodes=2), candidate(B, nodes=2)], 1),
        ([candidate(""), candidate(A)], 1),
        ([candidate(A, "g5.xlarge"), candidate(A, "g5g.xlarge")], 1),
        (
            [
                candidate(A, capacity="reservation", reservation="cr-1"),
                candidate(B, capacity="reservation", reservation="cr-1"),
            ],
            2,
        ),
        (
            [
                candidate(A, capacity="reservation", reservation="cr-1"),
                candidate(B, capacity="reservation", reservation="cr-2"),
            ],
            1,
        ),
        ([candidate(A), candidate(A)], 1),
    ],
)
def test_a_group_never_changes_the_plans_order(candidates, size) -> None:
    """A region's on-demand run is one fleet; Spot only where candidates rank equal; several nodes
    and other regions stand alone.
    """
    assert size == grouping.group(candidates)


# CreateFleet


def test_a_fleet_tries_overrides_in_the_plans_order() -> None:
    """On demand: one instant fleet, `prioritized`, one override for each (type, zone id), the token
    as its client token.
    """
    call = native.creating_call(
        order(candidate(A), candidate(B, "p4d.24xlarge"), candidate(C)), AROUND
    )
    assert (call.method, call.region) == (native.FLEET, "us-east-1")
    (config,) = call.body["LaunchTemplateConfigs"]
    assert config["Overrides"] == [
        {"InstanceType": "p5.48xlarge", "Priority": 0.0, "AvailabilityZoneId": A},
        {"InstanceType": "p4d.24xlarge", "Priority": 1.0, "AvailabilityZoneId": B},
        {"InstanceType": "p5.48xlarge", "Priority": 2.0, "AvailabilityZoneId": C},
    ]
    assert (
        call.body["Type"],
        call.body["ClientToken"],
        call.body["OnDemandOptions"],
    ) == ("instant", TOKEN, {"AllocationStrategy": "prioritized"})
    assert call.body["TargetCapacitySpecification"] == {
        "TotalTargetCapacity": 1,
        "DefaultTargetCapacityType": "on-demand",
    }
    assert (
        present(call.template)["LaunchTemplateName"]
        == config["LaunchTemplateSpecification"]["LaunchTemplateName"]
    )
    valid("CreateFleet", call.body)
    valid("CreateLaunchTemplate", call.template)


def test_b36_spot_is_one_time_and_ends() -> None:
    """Spot machines are terminated when taken back, never stopped, and no request outlives them."""
    call = native.creating_call(
        order(candidate(A, capacity="spot"), candidate(B, capacity="spot")), AROUND
    )
    assert call.body["SpotOptions"]["InstanceInterruptionBehavior"] == "terminate"
    assert call.body["TargetCapacitySpecification"]["DefaultTargetCapacityType"] == "spot"
    assert "InstanceMarketOptions" not in present(call.template)["LaunchTemplateData"]
    several = native.creating_call(order(candidate(A, capacity="spot", nodes=2), nodes=2), AROUND)
    assert several.body["InstanceMarketOptions"]["SpotOptions"] == {
        "SpotInstanceType": "one-time",
        "InstanceInterruptionBehavior": "terminate",
    }
    valid("CreateFleet", call.body)
    valid("RunInstances", several.body)


def test_zone_ids_become_names_where_the_api_model_has_no_ids() -> None:
    """An older client's overrides and placement name the account's own zone."""
    around = AROUND._replace(zone_names=((A, "us-east-1f"), (B, "us-east-1a")))
    fleet = native.creating_call(order(candidate(A), candidate(B)), around)
    assert [
        item["AvailabilityZone"] for item in fleet.body["LaunchTemplateConfigs"][0]["Overrides"]
    ] == ["us-east-1f", "us-east-1a"]
    assert (
        native.creating_call(order(candidate(nodes=2), nodes=2, **options(efa=False)), around).body[
            "Placement"
        ]["AvailabilityZone"]
        == "us-east-1f"
    )


def test_label_labels_and_names_are_tags() -> None:
    """Instance and volume carry the label, the order's token, the name and the user's labels, given
    by the call itself; the fleet carries label and token, its template, which other orders use too,
    the label.
    """
    wanted = order(candidate(A), candidate(B), labels=(("team", "x"),))
    call = native.creating_call(wanted, AROUND)
    specs = {
        item["ResourceType"]: {tag["Key"]: tag["Value"] for tag in item["Tags"]}
        for item in call.body["TagSpecifications"]
    }
    assert {"instance", "volume", "fleet"} == set(specs)
    assert "TagSpecifications" not in present(call.template)["LaunchTemplateData"]
    label = {
        "gpus-owner": "own1",
        "gpus-cluster": "train",
        "gpus-generation": "gen1",
        "gpus-fingerprint": "0123456789abcdef",
        "gpus-order": TOKEN,
    }
    assert (
        {**label, "Name": "train-0", "team": "x", "gpus-labels": "team"}
        == specs["instance"]
        == specs["volume"]
    )
    assert label == specs["fleet"]
    del label["gpus-order"]
    assert label == {
        tag["Key"]: tag["Value"] for tag in present(call.template)["TagSpecifications"][0]["Tags"]
    }
    valid("CreateFleet", call.body)
    assert Label("own1", "train", "gen1", "0123456789abcdef") == tagging.label_of(specs["instance"])
    assert tagging.label_of({"Name": "x"}) is None


def test_the_list_of_labels_fits_into_one_tag() -> None:
    """Names beyond 256 characters are not listed, and then not taken away later either."""
    many = {f"label-{index:02}-{'x' * 40}": "1" for index in range(10)}
    assert len(tagging.label_tags(many)["gpus-labels"]) <= 256 and tagging.label_tags({}) == {}


def test_the_disk_is_as_asked_and_never_smaller_than_the_image() -> None:
    """gp3 of the asked size, the root device's own name, deleted with the machine."""
    around = AROUND._replace(image=region_facts.Image("ami-1", "/dev/xvda", 120))
    for asked, size in ((None, 120), (50, 120), (500, 500)):
        call = native.creating_call(order(disk_gib=asked), around)
        (mapping,) = call.body["BlockDeviceMappings"]
        assert {
            "DeviceName": "/dev/xvda",
            "Ebs": {"VolumeSize": size, "VolumeType": "gp3", "DeleteOnTermination": True},
        } == mapping
    faster = order(**options(volume_type="io2", volume_iops=4000))
    (mapping,) = native.creating_call(faster, AROUND).body["BlockDeviceMappings"]
    assert mapping["Ebs"]["Iops"] == 4000


def test_options_reach_the_template() -> None:
    """Key pair, profile (name or ARN), subnets and placement group are where EC2 looks for them."""
    given = options(
        key_name="me",
        instance_profile="arn:aws:iam::123456789012:instance-profile/t",
        subnets={A: "subnet-0123456789abcdef0", B: "subnet-0123456789abcdef1"},
        placement_group="mine",
    )
    call = native.creating_call(order(candidate(A), candidate(B), **given), AROUND)
    data = present(call.template)["LaunchTemplateData"]
    assert (
        data["KeyName"],
        data["IamInstanceProfile"],
    ) == ("me", {"Arn": "arn:aws:iam::123456789012:instance-profile/t"})
    assert data["Placement"] == {"GroupName": "mine"} and data["MetadataOptions"] == {
        "HttpTokens": "required"
    }
    override = call.body["LaunchTemplateConfigs"][0]["Overrides"][0]
    assert (
        override["SubnetId"] == "subnet-0123456789abcdef0" and "AvailabilityZoneId" not in override
    )
    valid("CreateFleet", call.body)


def test_zones_without_a_subnet_or_not_enabled_are_left_out() -> None:
    """A fleet goes on with the zones that it can use; with none it is refused there, with the
    command that enables the zone.
    """
    call = native.creating_call(order(candidate(A), candidate("use1-atl2-az1")), AROUND)
    assert (candidate(A),) == call.candidates
    with pytest.raises(
        NotEnabled,
        match=(
            "modify-availability-zone-group --region us-east-1 --group-name us-east-1-atl-2"
            " --opt-in"
        ),
    ) as caught:
        native.creating_call(order(candidate("use1-atl2-az1")), AROUND)
    assert (
        Scope("aws", "us-east-1", "use1-atl2-az1"),
    ) == caught.value.scopes and caught.value.closed
    with pytest.raises(Unsupported, match=r"options\.aws\.subnets"):
        native.creating_call(
            order(candidate(B), **options(subnets={A: "subnet-0123456789abcdef0"})), AROUND
        )


# RunInstances


@pytest.mark.parametrize("capacity", ["on-demand", "spot"])
def test_one_pool_is_bought_without_a_fleet(capacity) -> None:
    """One type in one zone: RunInstances, all or nothing, by the order's token, and no template.
    Orders for the same cluster and content share a template, whatever their tokens.
    """
    call = native.creating_call(order(candidate(A, capacity=capacity)), AROUND)
    assert (call.method, call.template) == (native.RUN, None)
    assert (call.body["MinCount"], call.body["MaxCount"], call.body["ClientToken"]) == (1, 1, TOKEN)
    assert call.body["Placement"] == {"AvailabilityZoneId": A}
    assert ("InstanceMarketOptions" in call.body) == (capacity == "spot")
    valid("RunInstances", call.body)
    wanted = order(candidate(A), candidate(B))
    first, again, other = (
        present(native.creating_call(each, AROUND).template)["LaunchTemplateName"]
        for each in (
            wanted,
            wanted._replace(token="66666666-2222-3333-4444-555555555555"),
            order(candidate(A), candidate(B), ttl_s=60),
        )
    )
    assert first == again != other


def test_several_nodes_are_all_or_nothing_in_one_zone_with_efa() -> None:
    """MinCount = MaxCount, a cluster placement group of their own, one EFA interface on each card,
    the primary first.
    """
    wanted = order(candidate(nodes=4), nodes=4)
    call = native.creating_call(wanted, AROUND)
    assert (
        call.method,
        call.body["MinCount"],
        call.body["MaxCount"],
        call.body["ClientToken"],
    ) == (native.RUN, 4, 4, TOKEN)
    assert {"GroupName": f"gpus-{TOKEN}"} == call.body["Placement"] and (
        f"gpus-{TOKEN}",
        True,
    ) == region_facts.placement_group(wanted)
    cards = [
        (item["NetworkCardIndex"], item["DeviceIndex"], item["InterfaceType"])
        for item in call.body["NetworkInterfaces"]
    ]
    assert cards[:2] == [(0, 0, "efa"), (1, 1, "efa-only")] and 32 == len(cards) == len(set(cards))
    assert {"subnet-0"} == {
        item["SubnetId"] for item in call.body["NetworkInterfaces"]
    } and "SecurityGroupIds" not in call.body
    assert (
        "no public address" in call.notes[0]
        and "no public address" in present(MANIFEST.pricing.notes)(candidate(nodes=4), Setup())[0]
    )
    assert (
        ()
        == present(MANIFEST.pricing.notes)(candidate(), Setup())
        == present(MANIFEST.pricing.notes)(candidate(machine_type="g6.8xlarge", nodes=2), Setup())
    )
    assert (
        present(MANIFEST.pricing.notes)(
            candidate(nodes=4), Setup(options=(("aws", {"efa": False}),))
        )
        == ()
    )
    assert "no run limit" in present(MANIFEST.pricing.notes)(candidate(), Setup(ttl_s=3600))[0]
    valid("RunInstances", call.body)


def test_efa_follows_the_card_layout_of_the_family() -> None:
    """p6-b300 has no EFA on card 0; a type without EFA gets a plain interface, and is refused when
    EFA is demanded.
    """
    b300 = machines.efa_cards("p6-b300.48xlarge")
    assert b300[0] == (0, 0, "interface") and len(b300) == 17
    small = native.creating_call(
        order(candidate(machine_type="g5.xlarge", nodes=2), nodes=2), AROUND
    )
    assert "NetworkInterfaces" not in small.body and small.body["SecurityGroupIds"] == [
        "sg-0123456789abcdef0"
    ]
    with pytest.raises(Unsupported, match="EFA"):
        native.creating_call(
            order(candidate(machine_type="g5.xlarge"), **options(efa=True)), AROUND
        )
    one = native.creating_call(order(candidate(), **options(efa=True)), AROUND)
    (card,) = one.body["NetworkInterfaces"]
    assert (card["InterfaceType"], card["SubnetId"]) == ("efa", "subnet-0")
    fleet = native.creating_call(order(candidate(A), candidate(B), **options(efa=True)), AROUND)
    (card,) = present(fleet.template)["LaunchTemplateData"]["NetworkInterfaces"]
    assert card["InterfaceType"] == "efa"
    assert fleet.body["LaunchTemplateConfigs"][0]["Overrides"][0]["SubnetId"] == "subnet-0"
    plain = native.creating_call(
        order(candidate(nodes=2), nodes=2, **options(efa=False, placement_group="none")), AROUND
    )
    assert "NetworkInterfaces" not in plain.body and plain.body["Placement"] == {
        "AvailabilityZoneId": A
    }


@pytest.mark.parametrize("block", [False, True])
def test_an_own_reservation_or_capacity_block_is_named(block) -> None:
    """A reservation is targeted by its id; a Capacity Block with its own market type. Neither is
    ever bought.
    """
    around = AROUND._replace(
        reservation=region_facts.Reservation("cr-0123456789abcdef0", "p5.48xlarge", A, block)
    )
    call = native.creating_call(
        order(candidate(A, capacity="reservation", reservation="cr-0123456789abcdef0")), around
    )
    assert call.method == native.RUN
    assert (
        call.body["CapacityReservationSpecification"]["CapacityReservationTarget"][
            "CapacityReservationId"
        ]
        == "cr-0123456789abcdef0"
    )
    assert ({"MarketType": "capacity-block"} if block else None) == call.body.get(
        "InstanceMarketOptions"
    )
    valid("RunInstances", call.body)


def test_several_network_cards_have_no_public_address() -> None:
    """Nodes joined by EFA over several cards are not reached from here; a single machine is."""
    several = candidate(machine_type="p5.48xlarge", nodes=2)
    assert "no public address" in demands.unreachable(several.placement, Setup())
    assert demands.unreachable(several.placement, Setup(options=(("efa", False),))) == ""
    assert demands.unreachable(candidate(machine_type="p5.48xlarge").placement, Setup()) == ""


def test_a_kept_machine_is_stopped_and_may_be_started_again() -> None:
    """on_ttl keep: the shutdown stops it. A one-time Spot machine can't be kept, so it is refused."""
    call = native.creating_call(order(ttl_s=3600, on_ttl="keep"), AROUND)
    assert call.body["InstanceInitiatedShutdownBehavior"] == "stop"
    with pytest.raises(Unsupported, match="on_ttl") as caught:
        native.creating_call(order(candidate(capacity="spot"), ttl_s=3600, on_ttl="keep"), AROUND)
    assert (Scope("aws", capacity="spot"),) == caught.value.scopes


def test_volta_needs_an_image_of_its_own() -> None:
    """The default image's open driver does not run a V100: without an own image the type is refused
    with that reason.
    """
    with pytest.raises(Unsupported, match="proprietary driver"):
        native.creating_call(order(candidate(machine_type="p3dn.24xlarge")), AROUND)
    assert native.creating_call(
        order(candidate(machine_type="p3dn.24xlarge"), **options(ami="ami-0123456789abcdef0")),
        AROUND,
    )
