"""The science world: things, what is true of them, and how that is said.

A *kind* is one relation, such as `made_of`. It has *values* (steel, glass, ...), *properties* that are true of some
of its values and false of the rest, and *things* that each have one value. Two sentences make a proof:

    core fact   a nail is made of steel.        (about a thing; a user can teach it)
    rule        steel conducts electricity.     (about a value; general knowledge)
    hypothesis  a nail conducts electricity.
"""

from relations import Kind, confusions, prop, table

MADE_OF = Kind(
    "made_of", "materials", "object",
    ("{x} is made of {v}", "{x} consists of {v}"),
    ("{v}", "everything made of {v}"),
    confusions("""
        steel: plastic wood
        copper: stone wood steel
        wood: plastic stone
        glass: plastic stone
        rubber: cotton plastic
        plastic: glass wood
        cotton: plastic rubber
        stone: wood glass"""),
    (
        prop("electricity", "steel copper",
             "conducts electricity | lets an electric current flow through it",
             "does not conduct electricity | stops an electric current"),
        prop("magnet", "steel",
             "sticks to a magnet | is pulled by a magnet",
             "does not stick to a magnet | is left alone by a magnet"),
        prop("float", "wood plastic rubber",
             "floats on water | stays on top of a lake",
             "sinks in water | drops to the bottom of a lake"),
        prop("burn", "wood cotton rubber plastic",
             "burns in a fire | catches fire near a flame",
             "does not burn in a fire | is safe from burning near a flame"),
        prop("bend", "rubber cotton plastic",
             "bends easily | can be folded by hand",
             "is stiff | cannot be folded by hand"),
        prop("living", "wood rubber cotton",
             "comes from a living thing | was once part of nature that grew",
             "does not come from a living thing | was never part of nature that grew"),
        prop("melt", "steel copper glass plastic",
             "can be melted and cast | turns liquid in a hot furnace",
             "cannot be melted and cast | never turns liquid in a hot furnace"),
    ),
    table("""
        steel: nail bolt anvil chain wrench sword rail needle
        copper: penny kettle coil cable gong cauldron pipe bracelet
        wood: log bench crate oar fence barrel canoe violin
        glass: window jar lens mirror goblet prism aquarium beaker
        rubber: tire eraser hose balloon gasket stopper flipper bumper
        plastic: comb bucket straw ruler bottle toothbrush frisbee funnel
        cotton: towel shirt sock bandage curtain handkerchief apron napkin
        stone: statue pyramid millstone tombstone obelisk pillar castle dolmen"""),
)

KIND_OF = Kind(
    "kind_of", "animals", "animal",
    ("{x} is a kind of {v}", "{x} is {av}"),
    ("{av}", "every {v}"),
    confusions("""
        mammal: fish bird
        bird: mammal reptile
        reptile: amphibian fish
        amphibian: reptile fish
        fish: mammal reptile
        insect: bird amphibian"""),
    (
        prop("backbone", "mammal bird reptile amphibian fish",
             "has a backbone | has bones along its back",
             "has no backbone | has no bones along its back"),
        prop("warm", "mammal bird",
             "keeps its body warm by itself | stays warm in cold air",
             "takes its warmth from its surroundings | becomes cold in cold air"),
        prop("lungs", "mammal bird reptile amphibian",
             "breathes with lungs | fills its lungs with air",
             "does not breathe with lungs | has no lungs to fill with air"),
        prop("scales", "reptile fish",
             "is covered with scales | is protected by scaly skin",
             "has no scales | is not protected by scaly skin"),
        prop("eggs", "amphibian fish",
             "has young that start life in water | begins its life under water",
             "has young that start life on land | begins its life out of water"),
        prop("wings", "bird insect",
             "has wings | carries wings on its body",
             "has no wings | carries no wings on its body"),
    ),
    table("""
        mammal: camel jerboa fennec meerkat gazelle zebra serval aardvark tapir orangutan gibbon capybara otter
        mammal: dolphin porpoise seal manatee ermine lemming bat
        bird: ostrich kestrel finch hornbill puffin pelican albatross heron kingfisher roadrunner quail toucan macaw
        bird: ptarmigan goose
        reptile: iguana python chameleon caiman tortoise gecko viper cobra terrapin
        amphibian: frog newt bullfrog axolotl toad spadefoot salamander
        fish: tuna shark barracuda pike trout carp cod pacu lungfish
        insect: locust termite weevil ant mantis butterfly dragonfly"""),
)

RUNS_ON = Kind(
    "runs_on", "energy", "device",
    ("{x} runs on {v}", "{x} gets its power from {v}"),
    ("a device that runs on {v}", "whatever gets its power from {v}"),
    confusions("""
        batteries: sunlight mains
        sunlight: gasoline mains
        gasoline: wind mains
        wind: gasoline batteries
        mains: sunlight muscles
        muscles: batteries wind"""),
    (
        prop("renewable", "sunlight wind muscles",
             "uses energy that is renewed by nature | can go on without using up a fuel",
             "uses energy that can run out | uses up a fuel or a store of energy"),
        prop("weather", "sunlight wind",
             "depends on the weather | may stand still when the weather changes",
             "works in any weather | goes on when the weather changes"),
        prop("refill", "batteries gasoline",
             "has to be filled or charged again | is useless once its store is empty",
             "never has to be filled or charged again | has no store that gets empty"),
        prop("cave", "batteries gasoline muscles",
             "works deep inside a tunnel | can be used far under the ground",
             "does not work deep inside a tunnel | cannot be used far under the ground"),
        prop("current", "batteries mains sunlight",
             "uses an electric current | has electricity in its wires",
             "uses no electric current | has no electricity in it"),
        prop("smoke", "gasoline",
             "gives off smoke | fouls the air with its fumes",
             "gives off no smoke | leaves the air free of fumes"),
    ),
    table("""
        batteries: flashlight watch camera drone phone pacemaker megaphone stopwatch
        sunlight: calculator satellite rover buoy probe spacecraft
        gasoline: chainsaw motorcycle lawnmower tractor truck generator snowmobile speedboat
        wind: sailboat windmill pinwheel turbine weathervane schooner
        mains: toaster oven refrigerator dishwasher freezer elevator printer television
        muscles: bicycle rowboat handsaw wheelbarrow skateboard unicycle loom nutcracker"""),
)

KINDS = (MADE_OF, KIND_OF, RUNS_ON)
